"""Randomness as an argument: a draw is a hash of (seed, site, number, purpose).

Arms that are equally good are candidates of a draw, so what finds them is here too.

No generator state exists, so there is none to save, to share or to lose. The words are 32 bits wide and the
multipliers below 2^31, so that every product fits a signed 64-bit integer: compiled and plain Python agree.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from cosend.algorithm import layout as col
from cosend.algorithm.layout import WORD, Ledger
from cosend.compiled import compiled

# What a draw is for. A purpose that may be drawn several times for one item adds 8 for every peer asked before.
OWN_EXPLORATION: Final = 1
PEER_TRAINING: Final = 2
PEER_EXPLORATION: Final = 3
BEST_ARM: Final = 4
ANSWER_TRAINING: Final = 5
ANSWER_BEST: Final = 6
ANYTHING_OWED: Final = 7
PER_ASKED_PEER: Final = 8


def site_words(seed: int, site: str) -> tuple[int, int]:
    """Return the two key words from which all draws of a site come."""
    digest = blake2b(f"{seed}/{site}".encode(), digest_size=8).digest()
    return int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:], "little")


def caller_word(site: str) -> int:
    """Return the word that sets apart the draws made to answer `site`."""
    return int.from_bytes(blake2b(site.encode(), digest_size=8).digest()[:4], "little")


@compiled
def mix(word: int) -> int:
    """Scatter a 32-bit word: a bijection in which every input bit moves every output bit."""
    word ^= word >> 16
    word = (word * 0x21F0AAAD) & WORD
    word ^= word >> 15
    word = (word * 0x735A2D97) & WORD
    return word ^ (word >> 15)


@compiled
def draw(key0: int, key1: int, caller: int, number: int, purpose: int) -> int:
    """Return 32 random bits that depend on nothing but the arguments."""
    word = mix((number & WORD) ^ key0)
    word = mix(word ^ (number >> 32) ^ ((purpose * 0x9E3779B1) & WORD))
    return mix(word ^ key1 ^ caller)


@compiled
def pick(key0: int, key1: int, caller: int, number: int, purpose: int, candidates: int) -> int:
    """Return one of 0 .. candidates-1, uniformly."""
    if candidates == 1:
        return 0
    return (draw(key0, key1, caller, number, purpose) * candidates) >> 32


@compiled
def draw_one(ledger: Ledger, purpose: int, candidates: int) -> int:
    """Return one of several candidates for the decision that is being made."""
    site = ledger.site
    return pick(site[col.KEY0], site[col.KEY1], 0, site[col.LAST_ID] + 1, purpose, candidates)


@compiled
def update_argmax(first: int, ties: int, best: float, arm: int, value: float) -> tuple[int, int, float]:
    """Return the first arm with the highest value, how many share it, and the value, with one more arm seen."""
    if value > best:
        return arm, 1, value
    return first, ties + (value == best), best
