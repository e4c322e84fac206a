"""The promised names: they exist, they are sorted, and each says what it is."""

from __future__ import annotations

import inspect

import pytest

import antiphon


def test_names_are_sorted_and_exist() -> None:
    assert antiphon.__all__ == sorted(antiphon.__all__)
    for name in antiphon.__all__:
        assert getattr(antiphon, name) is not None


@pytest.mark.parametrize("name", [n for n in antiphon.__all__ if not n.startswith("__")])
def test_classes_and_functions_are_documented(name: str) -> None:
    value = getattr(antiphon, name)
    if inspect.isclass(value) or inspect.isfunction(value):
        assert inspect.getdoc(value), f"{name} has no docstring"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        antiphon.nonsense  # noqa: B018


def test_every_package_has_a_door_sign() -> None:
    from tests.architecture.plan import SOURCE

    for sign in SOURCE.rglob("__init__.py"):
        text = sign.read_text("utf-8")
        assert text.startswith('"""'), f"{sign.parent.name} has no door sign"
