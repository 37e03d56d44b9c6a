"""The page on which a person sees and undoes what is remembered."""
