"""A user is named by what can be believed, and by nothing else."""

import time

import jwt
import pytest
from pydantic import SecretStr
from starlette.datastructures import Headers

from hayrecall.server.api_keys import ApiKey
from hayrecall.server.errors import ApiError
from hayrecall.server.identity import Identities

SECRET = "a secret that both sides know, long enough also for the longest of the algorithms"
TRUSTED = ApiKey("1", "web", "acme", "user", True, "", "00", "")
PLAIN = ApiKey("2", "sdk", "acme", "user", False, "", "00", "")


def token(secret=SECRET, algorithm="HS256", **claims):
    now = int(time.time())
    content = {"sub": "ann", "iss": "open-webui", "iat": now, "exp": now + 300, **claims}
    return jwt.encode({name: value for name, value in content.items() if value is not None}, secret, algorithm)


def identify(key=PLAIN, user=None, **headers):
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Identities(SecretStr(SECRET)).identify(key, Headers(raw=pairs), user)


def test_nobody_is_nobody():
    assert identify().user_id is None
    with pytest.raises(ApiError) as refused:
        identify().required_user()
    assert (refused.value.status_code, refused.value.code) == (401, "identity_required")


def test_a_signed_token_names_the_user_for_any_key():
    assert identify(x_openwebui_user_jwt=token()).user_id == "ann"
    assert identify(TRUSTED, x_openwebui_user_jwt=token()).user_id == "ann"


def test_plain_headers_and_the_user_field_count_for_trusted_keys_only():
    assert identify(TRUSTED, x_openwebui_user_id="ann").user_id == "ann"
    assert identify(TRUSTED, "ann").user_id == "ann"
    assert identify(TRUSTED, {"id": "ann", "email": "x"}).user_id == "ann"
    assert identify(TRUSTED, x_openwebui_user_email="ann@acme.example").user_id == "ann@acme.example"
    assert identify(PLAIN, x_openwebui_user_id="ann").user_id is None
    assert identify(PLAIN, "ann").user_id is None


@pytest.mark.parametrize(
    "forged",
    [
        token(secret="another secret, and as long as the one that both of the sides really do know"),
        token(exp=int(time.time()) - 31),
        token(exp=None),
        token(iss="somebody-else"),
        token(iss=None),
        token(sub=None),
        token(sub="  "),
        token(sub=" \0"),
        token(algorithm="HS512"),
        token(secret=None, algorithm="none"),
        "no.token.atall",
    ],
    ids=[
        "foreign key",
        "expired",
        "no exp",
        "issuer",
        "no issuer",
        "no sub",
        "blank sub",
        "NUL sub",
        "HS512",
        "none",
        "garbage",
    ],
)
def test_a_token_that_is_not_valid_is_refused(forged):
    with pytest.raises(ApiError) as refused:
        identify(TRUSTED, x_openwebui_user_jwt=forged)
    assert (refused.value.status_code, refused.value.code) == (401, "invalid_identity")


def test_clocks_may_differ_a_little():
    assert identify(x_openwebui_user_jwt=token(exp=int(time.time()) - 20, iat=int(time.time()) + 20)).user_id == "ann"


def test_a_token_without_a_secret_to_check_it_is_refused_rather_than_passed_over():
    with pytest.raises(ApiError) as refused:
        Identities(None).identify(TRUSTED, Headers({"x-openwebui-user-jwt": token()}))
    assert "HAYRECALL_OPENWEBUI_JWT_SECRET" in refused.value.detail


@pytest.mark.parametrize(
    ("key", "user", "headers"),
    [
        (TRUSTED, None, {"x_openwebui_user_jwt": token(), "x_openwebui_user_id": "bob"}),
        (PLAIN, None, {"x_openwebui_user_jwt": token(), "x_openwebui_user_id": "bob"}),
        (TRUSTED, None, {"x_openwebui_user_jwt": token(email="a@x"), "x_openwebui_user_email": "b@x"}),
        (TRUSTED, "bob", {"x_openwebui_user_jwt": token()}),
        (TRUSTED, "bob", {"x_openwebui_user_id": "ann"}),
    ],
)
def test_two_sources_that_differ_are_refused(key, user, headers):
    with pytest.raises(ApiError) as refused:
        identify(key, user, **headers)
    assert (refused.value.status_code, refused.value.code) == (401, "conflicting_identity")


def test_two_tokens_for_two_users_are_refused():
    pairs = [(b"x-openwebui-user-jwt", token(sub=user).encode()) for user in ("ann", "bob")]
    with pytest.raises(ApiError) as refused:
        Identities(SecretStr(SECRET)).identify(PLAIN, Headers(raw=pairs))
    assert refused.value.code == "conflicting_identity"


def test_a_header_that_is_there_twice_with_two_values_is_refused():
    raw = [(b"x-openwebui-user-id", b"ann"), (b"x-openwebui-user-id", b"bob")]
    with pytest.raises(ApiError):
        Identities(None).identify(TRUSTED, Headers(raw=raw))


def test_sources_that_agree_are_one():
    who = identify(TRUSTED, "ann", x_openwebui_user_jwt=token(), x_openwebui_user_id="ann")
    assert who.user_id == "ann"


@pytest.mark.parametrize("user_id", ["ann.b@acme.example", "a b", "*", ">", "ünï-çødé", "日本", "50%25"])
def test_ids_are_arbitrary_texts(user_id):
    assert identify(TRUSTED, x_openwebui_user_id=user_id).user_id == user_id


def test_groups_are_decoded_once_and_count_for_trusted_keys_only():
    groups = "R%C3%A9gie, 100%2525,,staff,staff"
    assert identify(TRUSTED, x_openwebui_user_groups=groups).groups == ("Régie", "100%25", "staff")
    assert identify(PLAIN, x_openwebui_user_groups=groups).groups == ()


def test_a_role_is_the_keys_own_never_the_tokens():
    assert identify(x_openwebui_user_jwt=token(role="admin")).role == "user"
    with pytest.raises(ApiError) as refused:
        identify(x_openwebui_user_jwt=token(role="admin")).require("admin")
    assert refused.value.status_code == 403
