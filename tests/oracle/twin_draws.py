"""The draws of the slow twins: hashes, no generator (exactness: Draws)."""

from hashlib import blake2b

WORD = 0xFFFFFFFF  # all words are 32 bits (exactness: Draws)

# Purposes of draws (exactness: Draws). Asking again moves the purpose on by 8 per peer asked.
OWN_OWED, PEER_UNTRAINED, PEER_OWED, BEST_TIE, ANSWER_OWED, ANSWER_TIE, ANYTHING_OWED, PER_ASKED = range(1, 9)


def mix(x: int) -> int:
    """Scramble one word (exactness: Draws)."""
    x = ((x ^ (x >> 16)) * 0x21F0AAAD) & WORD
    x = ((x ^ (x >> 15)) * 0x735A2D97) & WORD
    return x ^ (x >> 15)


def hash_words(text: str) -> tuple[int, int]:
    """Return the first and the second four bytes of the hash of a text."""
    digest = blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:], "little")


def draw(keys: tuple[int, int], word: int, number: int, purpose: int) -> int:
    """Return the one word that (site, caller, number, purpose) stands for (exactness: Draws)."""
    low, high = number & WORD, (number >> 32) & WORD
    scatter = (purpose * 0x9E3779B1) & WORD
    return mix(mix(mix(low ^ keys[0]) ^ high ^ scatter) ^ keys[1] ^ word)
