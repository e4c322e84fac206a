"""A sequence that only grows, as a value: O(1) append and snapshot on shared storage.

The same idea as `core/transcript`, for anything: a window of some length; appending writes behind it. The first of two
extensions of one window shares its storage, the second gets its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar, final

from msgspec import Struct

T = TypeVar("T")


@final
class Grown(Struct, Generic[T], frozen=True, gc=False, eq=False):
    """`count` items of shared storage. `EMPTY` values are made by `grown()`."""

    items: list[T]
    count: int

    def append(self, item: T) -> Grown[T]:
        """A window with one more item; this one still shows what it showed."""
        items, count = self.items, self.count
        if count == 0:
            return Grown([item], 1)  # the empty one is shared by everybody
        if len(items) != count:
            items = items[:count]
        items.append(item)
        return Grown(items, count + 1)

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[T]:
        items = self.items
        return iter(items if len(items) == self.count else items[: self.count])

    def __getitem__(self, index: int) -> T:
        if not -self.count <= index < self.count:
            raise IndexError(f"item {index} of {self.count}")
        return self.items[index if index >= 0 else self.count + index]

    def tuple(self) -> tuple[T, ...]:
        """The items as a tuple: O(n)."""
        items = self.items
        return tuple(items if len(items) == self.count else items[: self.count])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Grown) and self.tuple() == other.tuple()


_EMPTY: Grown[Any] = Grown([], 0)


def grown() -> Grown[Any]:
    """An empty sequence. It gets storage with its first item."""
    return _EMPTY
