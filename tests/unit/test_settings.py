"""One table gives flags, variables, defaults and what cannot be."""

import dataclasses

import pytest

from gym_http_server.errors import SettingError
from gym_http_server.settings import TABLE, Settings, from_mapping


def test_flags_win_over_variables_and_those_over_defaults() -> None:
    environ = {"GHS_PORT": "6000", "GHS_WORKERS": "3", "HOME": "/"}
    settings = from_mapping(environ, {"port": "7000", "workers": None})
    assert (settings.port, settings.workers, settings.listen) == (7000, 3, "127.0.0.1")


def test_lists_come_comma_separated_or_as_repeated_flags() -> None:
    assert from_mapping({"GHS_IMPORT": "a, b"}, {}).import_ == ("a", "b")
    assert from_mapping({"GHS_IMPORT": "a"}, {"import_": ("c",)}).import_ == ("c",)


@pytest.mark.parametrize(
    ("variable", "text", "expected"),
    [
        ("GHS_PORT", "70000", "an integer from 0 to 65535"),
        ("GHS_PORT", "x", "an integer from 0 to 65535"),
        ("GHS_STEP_DEADLINE", "0", "a number from 0.1"),
        ("GHS_STEP_DEADLINE", "nan", "a number from 0.1"),
        ("GHS_STEP_DEADLINE", "inf", "a number from 0.1"),
        ("GHS_NO_TOKEN", "maybe", "true or false"),
    ],
)
def test_a_bad_value_says_what_would_be_right(
    variable: str, text: str, expected: str
) -> None:
    with pytest.raises(SettingError) as caught:
        from_mapping({variable: text}, {})
    assert str(caught.value) == f"{variable} is {text!r}: expected {expected}"


def test_an_unknown_variable_is_an_error() -> None:
    with pytest.raises(SettingError, match="GHS_PROT is not a setting"):
        from_mapping({"GHS_PROT": "1"}, {})


def test_settings_survive_the_way_to_a_child() -> None:
    settings = from_mapping({}, {"token": "t" * 20, "allow_host": ("a", "b")})
    assert Settings.from_json(settings.to_json()) == settings
    assert settings.without_token() == dataclasses.replace(settings, token="")


def test_every_setting_has_help_and_a_name_of_its_own() -> None:
    assert all(row.help.endswith(".") for row in TABLE)
    flags = [name for row in TABLE for name in (row.flag, row.short) if name]
    assert len(set(flags)) == len(flags)
