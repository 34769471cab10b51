"""Files of tokens: errors at the start, and the permissions of each scope."""

import hashlib
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from gym_http_server.access import tokens
from gym_http_server.access.identities import (
    EVERYONE,
    Identity,
    Keys,
    quotas,
    read_file,
)
from gym_http_server.commands import cli
from gym_http_server.config.settings import Settings
from gym_http_server.errors import ScopeMissing, SettingError

HASH = hashlib.sha256(b"one").hexdigest()
OTHER = hashlib.sha256(b"two").hexdigest()


def file_of(folder: Path, text: str, mode: int = 0o644) -> str:
    path = folder / "tokens"
    path.write_text(text)
    path.chmod(mode)
    return str(path)


REFUSED = [
    ("", "has no token in it"),
    ("# nothing\n\n", "has no token in it"),
    (f"ada {HASH}\n", "line 1: there are 2 fields"),
    (f"ada {HASH} read 1 2\n", "line 1: there are 5 fields"),
    (f"\n# a comment\nada {HASH[:-1]} read\n", "line 3: the second field is not a SHA"),
    (f"ada {HASH[:-1]}x read\n", "line 1: the second field is not a SHA"),
    ("ada a-secret-token-of-ada read\n", "and it has 21 characters"),
    (f"-ada {HASH} read\n", "line 1: the name is '-ada'"),
    (f"{'a' * 65} {HASH} read\n", "line 1: the name is"),
    (f"ada {HASH} read,walk\n", "line 1: the scope 'walk' is unknown"),
    (f"ada {HASH} read,\n", "line 1: the scope '' is unknown"),
    (f"ada {HASH} READ\n", "line 1: the scope 'READ' is unknown"),
    (f"ada {HASH} external\n", "line 1: the scope 'external' is unknown"),
    (f"ada {HASH} external:\n", "line 1: the scope 'external:' is unknown"),
    (f"ada {HASH} external:a/b\n", "line 1: the scope 'external:a/b' is unknown"),
    (f"ada {HASH} read:x\n", "line 1: the scope 'read:x' is unknown"),
    (f"ada {HASH} read 0\n", "line 1: max_instances is '0'"),
    (f"ada {HASH} read -1\n", "line 1: max_instances is '-1'"),
    (f"ada {HASH} read 1.5\n", "line 1: max_instances is '1.5'"),
    (f"ada {HASH} read 100001\n", "line 1: max_instances is '100001'"),
    (
        f"ada {HASH} read\nada {OTHER} read\n",
        "line 2: the name 'ada' is also on line 1",
    ),
    (f"a {HASH} read\n\nb {HASH.upper()} read\n", "line 3: the hash is also on line 1"),
    (
        # printf '' | sha256sum
        "ada e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 read\n",
        "line 1: the hash is that of an empty token",
    ),
]


@pytest.mark.parametrize(("text", "words"), REFUSED)
def test_malformed_files_are_refused_in_one_sentence(
    text: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(SettingError) as caught:
        read_file(file_of(tmp_path, text))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "a-secret-token-of-ada" not in str(caught.value)


@pytest.mark.parametrize("mode", [0o666, 0o664, 0o622, 0o602])
def test_files_that_others_can_write_are_refused(mode: int, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="can be written by other users"):
        read_file(file_of(tmp_path, f"ada {HASH} read\n", mode))


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644])
def test_others_may_read_them(mode: int, tmp_path: Path) -> None:
    assert read_file(file_of(tmp_path, f"ada {HASH} read\n", mode))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_files_of_other_users_are_refused(tmp_path: Path) -> None:
    path = file_of(tmp_path, f"ada {HASH} read\n")
    os.chown(path, 12345, 12345)
    with pytest.raises(SettingError, match="belongs to user 12345"):
        read_file(path)


def test_paths_of_no_file_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere", Path("/dev/null")):
        with pytest.raises(SettingError, match="file of tokens"):
            read_file(str(path))
    (tmp_path / "latin").write_bytes(b"\xe9\n")
    with pytest.raises(SettingError, match="cannot read the file of tokens"):
        read_file(str(tmp_path / "latin"))


@pytest.mark.parametrize(
    "flag",
    [{"token": "x" * 16}, {"token": "auto"}, {"no_token": True}, {"token_file": "T"}],
)
def test_a_single_token_beside_several_is_refused(
    flag: dict[str, object], tmp_path: Path
) -> None:
    path = file_of(tmp_path, f"ada {HASH} read\n")
    (tmp_path / "single").write_text("x" * 16)
    if "token_file" in flag:
        flag = {"token_file": str(tmp_path / "single")}
    with pytest.raises(SettingError, match="choose one"):
        tokens.resolve_tokens(Settings(tokens=path, **flag))  # type: ignore[arg-type]


def test_a_missing_token_file_is_named_with_a_way_to_make_one(tmp_path: Path) -> None:
    missing = str(tmp_path / "token")
    words = f"cannot read the token file {missing}: .*base64"
    with pytest.raises(SettingError, match=words):
        tokens.resolve_tokens(Settings(token_file=missing))


def test_files_of_tokens_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    single = tmp_path / "single"
    single.write_bytes(b"\xef\xbb\xbf" + b"x" * 16 + b"\r\n")
    resolved = tokens.resolve_tokens(Settings(token_file=str(single)))
    assert resolved.token == tokens.to_show("", str(single), {}) == "x" * 16
    several = file_of(tmp_path, f"\ufeffada {HASH} read\n")
    assert read_file(several) == f"ada {HASH} read\n"


def test_several_tokens_are_enough_beyond_loopback(tmp_path: Path) -> None:
    path = file_of(tmp_path, f"ada {HASH} read\n")
    settings = tokens.resolve_tokens(
        Settings(
            tokens=path,
            listen="0.0.0.0",
            zmq="tcp://0.0.0.0:0",
            external_tcp="0.0.0.0:0",
        )
    )
    assert settings.guarded
    # The settings of processes that run users' code contain no hash.
    assert HASH not in settings.without_token().to_json().decode()


def test_keys_of_tokens_differ(tmp_path: Path) -> None:
    text = f"  ada\t{HASH}  read,step 4 # hers\nbob {OTHER.upper()} admin\n"
    settings = tokens.resolve_tokens(Settings(tokens=file_of(tmp_path, text)))
    keys = Keys.of(settings)
    assert keys is not None
    assert keys.identify(b"one") == Identity("ada", frozenset({"read", "step"}), 4)
    assert keys.identify(b"two") == Identity("bob", frozenset({"admin"}), None)
    for wrong in (b"", b"three", b"one ", HASH.encode()):
        assert keys.identify(wrong) is None
    assert quotas(settings) == {"ada": 4, "bob": None}
    assert Keys.of(Settings()) is None


def test_scopes() -> None:
    ada = Identity("ada", frozenset({"read", "external:cart"}))
    assert ada.only == "ada"
    assert ada.may(frozenset())
    assert ada.may(frozenset({"read", "step"}))
    assert ada.may(frozenset({"external"}))
    assert not ada.may(frozenset({"step"}))
    assert ada.may_connect("cart")
    assert not ada.may_connect("car")
    assert not ada.may_connect("*")
    assert Identity("b", frozenset({"external:*"})).may_connect("cart")
    for admin in (EVERYONE, Identity("root", frozenset({"admin"}))):
        assert admin.only == ""
        assert admin.may(frozenset({"step"}))
        assert admin.may_connect("cart")
    with pytest.raises(ScopeMissing, match="'ada' lacks the scope step"):
        ada.require("read", "step")


def test_the_command_makes_a_line_that_a_server_accepts(tmp_path: Path) -> None:
    arguments = ["token", "ada", "--scopes", "read,external:*", "--max-instances", "3"]
    made = CliRunner().invoke(cli.main, arguments)
    assert made.exit_code == 0
    token = made.stderr.split()[-1]
    assert len(token) >= 32
    assert made.stderr == f"The token of ada is {token}\n"
    digest = hashlib.sha256(token.encode()).hexdigest()
    assert made.stdout == f"ada {digest} read,external:* 3\n"
    assert read_file(file_of(tmp_path, made.stdout)) == made.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["a b"], "the name is 'a b'"),
        (["ada", "--scopes", "walk"], "the scope 'walk' is unknown"),
        (["ada", "--scopes", "read, step"], "the scope ' step' is unknown"),
    ],
)
def test_the_command_refuses_malformed_lines(arguments: list[str], words: str) -> None:
    made = CliRunner().invoke(cli.main, ["token", *arguments])
    assert made.exit_code == 1
    assert made.stdout == ""
    assert words in made.stderr
