"""What a model is made of, as a hash: so that a site which starts again notices another model under a known name.

It is the hash of a file for a model in a file, of the source of its module for `module:callable`, and of the training
rows for a model that is trained here. A model that a module loads from elsewhere is not seen.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cosend.config.sites import ClassifierSetting


def hash_of(setting: ClassifierSetting, folder: Path, hidden: Sequence[str], parts: Sequence[Any]) -> str | None:
    """Return the hash of a model with all that changes what it says, or None where nothing can be known of it.

    parts  what it is trained with here, as arrays
    """
    made_of = [repr(part.tolist()).encode() if part.dtype == object else part.tobytes() for part in parts]
    if setting.kind in ("file", "module"):
        try:
            made_of.append(_file(setting, folder).read_bytes())
        except (OSError, TypeError):  # it is elsewhere, or it is built into Python
            return None
    facts = [setting.model, setting.features or ["all but", *hidden], setting.label, setting.over]
    found = hashlib.sha256(json.dumps(facts, default=str).encode())
    for each in made_of:
        found.update(hashlib.sha256(each).digest())
    return found.hexdigest()


def _file(setting: ClassifierSetting, folder: Path) -> Path:
    """Return the file of a model, or of the module that holds it."""
    if setting.kind == "file":
        return folder / setting.model
    name = setting.model.partition(":")[0]
    beside = folder / f"{name}.py"
    return beside if beside.is_file() else Path(sys.modules[name].__file__ or "") if name in sys.modules else beside
