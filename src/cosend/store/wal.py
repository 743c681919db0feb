"""The write-ahead log of SQLite, read only to find out whether it is damaged.

SQLite takes the content of a WAL up to the first frame that is not as it was written, and forgets the rest without a
word. After a power cut that is right: the last transaction was never on the disk as a whole. If a bit has flipped, it
forgets what was acknowledged. The two can be told apart, because every transaction is on the disk before the next one
is begun: whole frames of a later transaction behind one that is damaged show that this one was whole too.

Frames carry the salts of the header; frames with other salts are left over from before the WAL was last restarted. The
checksum of each continues the one of the frame before it, so one damaged frame does not hide that later ones are whole.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

HEADER, FRAME = 32, 24  # bytes of the header, and of the head of a frame
LITTLE, BIG = 0x377F0682, 0x377F0683  # the first word says in which order of bytes checksums are made
SALTS: Final = slice(2, 4)  # words of the head of a frame
SUMS: Final = slice(4, 6)
Words = npt.NDArray[np.uint32]


class Damage(NamedTuple):
    """Where a WAL is damaged, and what is behind that."""

    frame: int  # the first that is not as it was written, from 1; 0: the header
    frames: int  # that are whole behind it
    whole: int  # bytes up to the last transaction before it


def damage_of(wal: Path, page: int) -> Damage | None:
    """Return where a WAL of this page size is damaged; None if SQLite would forget nothing that was written."""
    data = wal.read_bytes()
    count = (len(data) - HEADER) // (FRAME + page)
    if count < 1:
        return None
    header = np.frombuffer(data, ">u4", 8).astype(np.uint32)
    frames = np.frombuffer(data, np.uint8, count * (FRAME + page), HEADER).reshape(count, FRAME + page)
    heads = np.ascontiguousarray(frames[:, :FRAME]).view(">u4").astype(np.uint32)
    order = ">u4" if header[0] == BIG else "<u4"
    content = np.ascontiguousarray(np.delete(frames, np.s_[8:FRAME], axis=1)).view(order)
    begun = _summed(np.frombuffer(data, order, 6).reshape(1, 6), np.zeros((1, 2), np.uint32))[0]
    header_whole = header[0] in (LITTLE, BIG) and np.array_equal(begun, header[6:])
    salts = header[4:6] if header_whole else heads[0, SALTS]
    current = (heads[:, SALTS] == salts).all(axis=1) & (heads[:, 0] > 0)
    before = np.vstack([header[6:], heads[:-1, SUMS]])
    whole = current & (_summed(content, before) == heads[:, SUMS]).all(axis=1)
    commits = heads[:, 1] > 0
    if not header_whole:
        return Damage(0, int(whole.sum()), 0) if (whole & commits).any() else None
    first = count if whole.all() else int(np.argmin(whole))
    ends = np.flatnonzero(current & commits & (np.arange(count) >= first))  # of the damaged transaction, first of all
    later = int(whole[ends[0] + 1 :].sum()) if len(ends) else 0
    if not later:
        return None
    last = np.flatnonzero(commits[:first])
    kept = int(last[-1]) + 1 if len(last) else 0
    return Damage(first + 1, later, HEADER + kept * (FRAME + page))


def _summed(content: Words, before: Words) -> Words:
    """Return the checksums of rows that continue others, as SQLite makes them: modulo 2**32, over pairs of words.

    For every pair (x, y), first a becomes a + x + b, then b becomes b + y + a. That is linear, so that all rows can be
    summed at once: the factors of the words are Fibonacci numbers.
    """
    pairs = content.shape[1] // 2
    fibonacci = [1, 0]
    for _ in range(2 * pairs + 1):
        fibonacci.append((fibonacci[-1] + fibonacci[-2]) % 2**32)
    series = np.array(fibonacci, np.uint32)  # series[n + 1] is the n-th number, and series[0] that before the first
    left = 2 * np.arange(pairs, 0, -1)  # steps from each pair to the end
    first, second = content[:, 0::2].astype(np.uint32), content[:, 1::2].astype(np.uint32)
    a = first @ series[left] + second @ series[left - 1]
    b = first @ series[left + 1] + second @ series[left]
    n = 2 * pairs
    a += before[:, 0] * series[n] + before[:, 1] * series[n + 1]
    b += before[:, 0] * series[n + 1] + before[:, 1] * series[n + 2]
    return np.stack([a, b], axis=1)
