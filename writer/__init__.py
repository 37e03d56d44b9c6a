"""The memory writer: takes turns off the queue and brings each into its user's memory, exactly once in effect."""

import os

# Read while Haystack and mem0 are imported, so it stands before everything else: nobody is told about our users.
os.environ |= {"HAYSTACK_TELEMETRY_ENABLED": "false", "MEM0_TELEMETRY": "False"}
