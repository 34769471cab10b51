"""The table of settings defines flags, variables, defaults and invalid values."""

import dataclasses
import sys
from pathlib import Path

import msgspec
import pytest
from gymnasium.envs import registration
from hypothesis import given
from hypothesis import strategies as st

from gym_http_server.commands.module_paths import resolve_imports
from gym_http_server.config import units
from gym_http_server.config.settings import GROUPS, TABLE, Settings, from_mapping
from gym_http_server.errors import SettingError, StartError
from gym_http_server.supervisor.prefork import Modules


def test_flags_win_over_variables_and_those_over_defaults() -> None:
    environ = {"GHS_PORT": "6000", "GHS_WORKERS": "3", "HOME": "/"}
    settings = from_mapping(environ, {"port": "7000", "workers": None})
    assert (settings.port, settings.workers, settings.listen) == (7000, 3, "127.0.0.1")


def test_a_word_stands_for_the_servers_choice() -> None:
    (workers,) = (row for row in TABLE if row.name == "workers")
    assert (
        from_mapping({}, {}).workers
        == from_mapping({"GHS_WORKERS": "auto"}, {}).workers
        == 0
    )
    assert [workers.show(each) for each in (0, 3)] == ["auto", "3"]


def test_lists_come_comma_separated_or_as_repeated_flags() -> None:
    assert from_mapping({"GHS_IMPORT": "a, b"}, {}).import_ == ("a", "b")
    assert from_mapping({"GHS_IMPORT": "a"}, {"import_": ("c",)}).import_ == ("c",)


@pytest.mark.parametrize(
    ("given", "module"),
    [
        ("my_envs.py:Maze", "my_envs.py"),
        ("envs/a.py:Maze", "envs/a.py"),
        ("a:Maze", "a"),
    ],
)
def test_modules_are_imported_and_no_classes(given: str, module: str) -> None:
    with pytest.raises(StartError) as caught:
        resolve_imports(Settings(import_=(given,)))
    words = str(caught.value)
    assert words.startswith(f"cannot import {given!r}: expected a module alone, ")
    assert f"write --import {module}, " in words
    assert words.endswith(" there: gymnasium.register('my/Maze-v0', Maze)")


@pytest.mark.filterwarnings("ignore:.*Overriding environment CartPole-v1")
def test_an_imported_module_without_environments_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    registers = "import gymnasium; gymnasium.register('full/Maze-v0', object)"
    anew = registers.replace("full/Maze-v0", "CartPole-v1")
    modules = (("full_envs", registers), ("anew_envs", anew), ("void_envs", ""))
    for name, source in modules:
        (tmp_path / f"{name}.py").write_text(source)
        # The test leaves neither behind.
        monkeypatch.setitem(sys.modules, name, None)
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(registration, "registry", dict(registration.registry))
    monkeypatch.syspath_prepend(tmp_path)
    with caplog.at_level("INFO"):
        Modules.load(("full_envs", "anew_envs", "void_envs"))
    (record,) = caplog.records
    words = "the module void_envs is imported, and registers no environment"
    assert record.getMessage().startswith(words)


def test_a_class_of_a_module_is_not_imported_by_a_dot() -> None:
    with pytest.raises(StartError, match="'keyword' is not a package; import keyword"):
        Modules.load(("keyword.Maze",))


@pytest.mark.parametrize(
    ("variable", "text", "expected"),
    [
        ("GHS_PORT", "70000", "an integer from 0 to 65535"),
        ("GHS_PORT", "x", "an integer from 0 to 65535"),
        ("GHS_STEP_DEADLINE", "0", "a time from 0.1s, as 30, 10s or 5m"),
        ("GHS_STEP_DEADLINE", "nan", "a time from 0.1s, as 30, 10s or 5m"),
        ("GHS_STEP_DEADLINE", "inf", "a time from 0.1s, as 30, 10s or 5m"),
        ("GHS_STEP_DEADLINE", "10 seconds", "a time from 0.1s, as 30, 10s or 5m"),
        ("GHS_STEP_DEADLINE", "10ms", "a time from 0.1s, as 30, 10s or 5m"),
        ("GHS_IDLE_TIMEOUT", "-5m", "a time from 0, as 30, 10s or 5m"),
        ("GHS_MAX_BODY", "2X", "a size from 1K, as 65536, 512M or 2G"),
        ("GHS_MAX_BODY", "10s", "a size from 1K, as 65536, 512M or 2G"),
        ("GHS_MAX_BODY", "1000", "a size from 1K, as 65536, 512M or 2G"),
        ("GHS_MAX_BODY", "-2G", "a size from 1K, as 65536, 512M or 2G"),
        ("GHS_SPIN_US", "1ms", "an integer from 0 to 10000"),
        ("GHS_WORKERS", "0", "auto or an integer from 1 to 64"),
        ("GHS_WORKERS", "many", "auto or an integer from 1 to 64"),
        ("GHS_LOG_LEVEL", "loud", "debug, info, warning or error"),
        ("GHS_NO_TOKEN", "maybe", "true or false"),
    ],
)
def test_a_bad_value_is_refused_with_the_right_form(
    variable: str, text: str, expected: str
) -> None:
    with pytest.raises(SettingError) as caught:
        from_mapping({variable: text}, {})
    assert str(caught.value) == f"{variable} is {text!r}: expected {expected}"


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("GHS_PROT", " (did you mean GHS_PORT?)"),
        ("GHS_IDLE_TIME_OUT", " (did you mean GHS_IDLE_TIMEOUT?)"),
        ("GHS_XYZZY", ""),
    ],
)
def test_an_unknown_variable_is_an_error(variable: str, meant: str) -> None:
    with pytest.raises(SettingError) as caught:
        from_mapping({variable: "1"}, {})
    assert str(caught.value).startswith(f"{variable} is not a setting{meant}; ")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8388608", 8388608),
        ("8192K", 8388608),
        ("8M", 8388608),
        ("8m", 8388608),
        ("8MiB", 8388608),
        ("8 MB", 8388608),
        ("2G", 2147483648),
        ("0.5G", 536870912),
        ("1T", 1099511627776),
        ("9007199254740993", 9007199254740993),
    ],
)
def test_sizes_take_units(text: str, size: int) -> None:
    assert from_mapping({"GHS_MAX_BODY": text}, {}).max_body == size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90.0),
        ("0.25", 0.25),
        ("1e2", 100.0),
        ("10s", 10.0),
        ("1500ms", 1.5),
        ("5m", 300.0),
        ("1.5h", 5400.0),
        ("1d", 86400.0),
    ],
)
def test_times_take_units(text: str, seconds: float) -> None:
    assert from_mapping({}, {"step_deadline": text}).step_deadline == seconds


@given(st.integers(0, 1 << 60), st.integers(0, 1 << 40))
def test_values_are_shown_as_they_are_read(size: int, milliseconds: int) -> None:
    assert units.read_size(units.show_size(size)) == size
    seconds = milliseconds / 1000
    shown = units.read_duration(units.show_duration(seconds))
    assert shown == pytest.approx(seconds, abs=1e-6)


def test_each_setting_has_one_place_in_the_help() -> None:
    """Those of a topic that has no name here are among the others."""
    shown = [row for group in GROUPS for row in (*group.common, *group.advanced)]
    assert sorted(row.flag for row in shown) == sorted(row.flag for row in TABLE)


@pytest.mark.parametrize("pattern", ["[", "CartPole-[v", "a b", "x[]", "[!]"])
def test_patterns_that_match_no_env_id_are_refused(pattern: str) -> None:
    with pytest.raises(SettingError, match=r"--allow-env is .*: expected a pattern"):
        from_mapping({"GHS_ALLOW_ENV": pattern}, {})


@pytest.mark.parametrize("pattern", ["*", "ALE/*-v[45]", "a[!b]?", "x[]]", "my:Env-v0"])
def test_patterns_of_env_ids(pattern: str) -> None:
    assert from_mapping({"GHS_ALLOW_ENV": pattern}, {}).allow_env == (pattern,)


def test_settings_reach_a_child_unchanged() -> None:
    settings = from_mapping({}, {"token": "t" * 20, "allow_host": ("a", "b")})
    assert msgspec.json.decode(settings.to_json(), type=Settings) == settings
    assert settings.without_token() == dataclasses.replace(settings, token="")


def test_every_setting_has_help_and_a_name_of_its_own() -> None:
    assert all(row.help.endswith(".") for row in TABLE)
    flags = [name for row in TABLE for name in (row.flag, row.short) if name]
    assert len(set(flags)) == len(flags)
