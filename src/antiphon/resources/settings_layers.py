"""Settings in layers: defaults, the global file, the project's file, the command line. Pure, but for reading two files.

A wrong value costs one warning and is left out of its layer, so what is below it counts. Nobody's typing mistake ends
the program. Source: resources specification 2.1, R7.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import UNSET, Struct, field

from antiphon.core.wire import JsonObject, JsonValue
from antiphon.resources.diagnostics import Diagnostic, Finding, warning
from antiphon.resources.paths import Places, resolved
from antiphon.resources.settings import PATHS, RESOURCE_LISTS, Settings
from antiphon.resources.settings_keys import groups, keys
from antiphon.resources.stored import JsonFile, read_json


class Layer(Struct, frozen=True):
    """What one place says. `values`: by dotted path, checked; `base`: what relative paths in it are relative to."""

    name: str
    path: str
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    diagnostics: tuple[Diagnostic, ...] = ()
    unknown: tuple[str, ...] = ()
    base: Path | None = None


class Setting(Struct, frozen=True):
    """One key as it counts: its value, and the layer it came from."""

    path: str
    value: Any
    layer: str
    file: str = ""


class Resolved(Struct, frozen=True):
    """All settings for one working folder, each with its origin. `settings` is the typed value."""

    settings: Settings
    by_key: Mapping[str, Setting]
    layers: tuple[Layer, ...]

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        return tuple(found for layer in self.layers for found in layer.diagnostics)

    def resource_entries(self, name: str) -> tuple[tuple[str, Layer], ...]:
        """Entries of a resource list, those of the project first, each with the layer that has it."""
        out: list[tuple[str, Layer]] = []
        for layer in reversed(self.layers):
            out += [(entry, layer) for entry in layer.values.get(name, ()) if isinstance(entry, str)]
        return tuple(out)

    def findings(self) -> tuple[Finding, ...]:
        """Every key with its value, where it came from and why."""
        return tuple(
            Finding(
                kind="setting",
                name=setting.path,
                state="used",
                reason=f"{_shown(setting.value)} ({setting.layer})",
                path=setting.file,
            )
            for setting in self.by_key.values()
        )


def _shown(value: Any) -> str:
    return "not set" if value is UNSET else msgspec.json.encode(value).decode()


def read_layers(where: Places, *, trusted: bool, overrides: Mapping[str, Any] | None = None) -> Resolved:
    """The settings that hold in a folder. The project's file is read only if the project is trusted."""
    layers = [layer_of("global", read_json(where.global_settings), where.home)]
    if trusted:
        layers.append(layer_of("project", read_json(where.project_settings), where.home))
    if overrides:
        layers.append(Layer("command line", "", dict(overrides)))
    return merge(layers)


def project_session_dir(where: Places) -> str | None:
    """The one key of a project that is read before anybody trusts it: where its sessions lie."""
    layer = layer_of("project", read_json(where.project_settings), where.home)
    value = layer.values.get("sessionDir")
    return value if isinstance(value, str) else None


def layer_of(name: str, file: JsonFile, home: Path) -> Layer:
    """What a settings file says, checked key by key."""
    if file.fault is not None:
        return Layer(name, str(file.path), {}, (warning(file.fault),))
    values: dict[str, Any] = {}
    faults: list[Diagnostic] = []
    unknown: list[str] = []
    for path, value in flattened(modernized(file.values)):
        key = keys().get(path)
        if key is None and path in groups():
            faults.append(warning(f"{file.path}: {path} must be an object, not {_brief(value)}; it is ignored"))
        elif key is None:
            unknown.append(path)
        elif key.only_global and name != "global":
            faults.append(warning(f"{file.path}: {path} counts in the global settings only and is ignored here"))
        else:
            try:
                values[path] = key.checked(value)
            except msgspec.ValidationError:
                faults.append(warning(f"{file.path}: {path} must be {key.kind}, not {_brief(value)}; it is ignored"))
    base = file.path.parent
    for path in PATHS:
        if isinstance(values.get(path), str):
            values[path] = str(resolved(values[path], base, home))
    return Layer(name, str(file.path), values, tuple(faults), tuple(unknown), base)


def _brief(value: JsonValue) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else text[:57] + "..."


def flattened(values: JsonObject, prefix: str = "") -> Iterator[tuple[str, JsonValue]]:
    """Dotted paths and values of a nested object, as far as the definition is nested."""
    for name, value in values.items():
        path = prefix + name
        if path in groups() and isinstance(value, dict):
            yield from flattened(cast("JsonObject", value), path + ".")
        else:
            yield path, value


def modernized(values: JsonObject) -> JsonObject:
    """The same settings under today's names."""
    out = dict(values)
    if "queueMode" in out:
        out.setdefault("steeringMode", out.pop("queueMode"))
    if "websockets" in out:
        given = out.pop("websockets")
        out.setdefault("transport", {True: "websocket", False: "sse"}.get(given, given))
    skills = out.get("skills")
    if isinstance(skills, dict):
        table = cast("JsonObject", skills)
        if "enableSkillCommands" in table:
            out.setdefault("enableSkillCommands", table["enableSkillCommands"])
        out["skills"] = table.get("customDirectories", [])
    retry = out.get("retry")
    if isinstance(retry, dict) and "maxDelayMs" in retry:
        table = dict(cast("JsonObject", retry))
        delay, provider = table.pop("maxDelayMs"), table.get("provider", {})
        if isinstance(provider, dict):
            table["provider"] = {"maxRetryDelayMs": delay, **cast("JsonObject", provider)}
        out["retry"] = table
    return out


def merge(layers: Sequence[Layer]) -> Resolved:
    """What counts, later layers over earlier ones: objects by member, everything else as a whole."""
    by_key: dict[str, Setting] = {}
    for path, key in keys().items():
        setting = Setting(path, key.default, "default")
        for layer in layers:
            if path in layer.values:
                value = _over(path, setting.value, layer.values[path])
                setting = Setting(path, value, layer.name, layer.path)
        by_key[path] = setting
    return Resolved(_typed(by_key), by_key, tuple(layers))


def _over(path: str, below: Any, above: Any) -> Any:
    if path in RESOURCE_LISTS:
        return (*above, *below)
    if path == "defaultTools":
        return edited_names((), above) if below is UNSET and not is_edit(above) else _edited(below, above)
    if isinstance(below, dict) and isinstance(above, dict):
        return {**below, **above}
    return above


def _edited(below: Any, above: tuple[str, ...]) -> tuple[str, ...]:
    if below is UNSET:  # edits of a list that nobody wrote: whoever knows the list carries them out
        return above
    return (*below, *above) if is_edit(below) else edited_names(below, above)


def is_edit(names: Sequence[str]) -> bool:
    """Does a list of tools only change another one?"""
    return bool(names) and all(name[:1] in ("+", "-") for name in names)


def edited_names(inherited: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """A list of tools after the words of another: plain names replace, then `+n` and `-n` apply in order."""
    plain = [name for name in names if name[:1] not in ("+", "-")]
    out = list(plain if plain or not names else inherited)
    for name in names:
        if name.startswith("+") and name[1:] not in out:
            out.append(name[1:])
        elif name.startswith("-") and name[1:] in out:
            out.remove(name[1:])
    return tuple(dict.fromkeys(out))


def _typed(by_key: Mapping[str, Setting]) -> Settings:
    return cast("Settings", _group(Settings, "", by_key))


def _group(kind: type[msgspec.Struct], prefix: str, by_key: Mapping[str, Setting]) -> msgspec.Struct:
    fields: dict[str, Any] = {}
    for info in msgspec.structs.fields(kind):
        path = prefix + info.encode_name
        if path in by_key:
            fields[info.name] = by_key[path].value
        else:
            fields[info.name] = _group(info.type, path + ".", by_key)
    return kind(**fields)
