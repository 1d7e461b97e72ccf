"""From what the user calls a checkpoint, a folder or a Hub id, to a folder on this disk.

Knows the Hub and its cache; what the files hold is no concern of this one.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from rhapsode.errors import CheckpointError
from rhapsode.qwen3.checkpoint import CARD, CODEC_FOLDER, WEIGHTS

_ROOT = ("config.json", "generation_config.json", "merges.txt", "vocab.json", "tokenizer_config.json", WEIGHTS)
_CODEC = ("config.json", WEIGHTS)
FILES = (*_ROOT, CARD, *(f"{CODEC_FOLDER}/{name}" for name in _CODEC))
_ID = re.compile(r"[\w.-]+/[\w.-]+")


def locate(where: str | os.PathLike[str], *, revision: str | None = None, offline: bool = False,
           token: str | None = None) -> Path:  # fmt: skip
    """The folder of a checkpoint: itself if it is one, else the Hub's snapshot, downloaded if need be.

    `revision`, `offline` and `token` hold for all files, those of the codec too.
    Raises `CheckpointError` if there is neither a folder nor such a repository.
    """
    name = str(where)
    try:
        path = Path(where).expanduser()
        if name and path.is_dir():
            if revision is not None:
                raise CheckpointError(f"{name} is a folder, which has no revisions; leave {revision!r} out.")
            return path
        unfit = path.exists() or not _ID.fullmatch(name)
    except (OSError, RuntimeError):  # a name too long for a path, a home that there is not
        unfit = True
    if unfit:
        raise CheckpointError(
            f"{name} is neither a checkpoint folder nor a Hub id such as Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice."
        )
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError
    except ImportError:
        raise CheckpointError(f"To fetch {name} from the Hub, install huggingface_hub; or give a folder.") from None
    try:
        return Path(
            snapshot_download(
                name, revision=revision, local_files_only=offline, token=token, allow_patterns=list(FILES)
            )
        )
    except RepositoryNotFoundError:
        raise CheckpointError(
            f"There is no folder {name} here and no such repository on the Hub (or it wants --token)."
        ) from None
    except LocalEntryNotFoundError:
        how = "is not in the local cache; without --offline it would be fetched" if offline else (
            "is not in the local cache and the Hub cannot be reached")  # fmt: skip
        at = f" at revision {revision}" if revision else ""
        raise CheckpointError(f"{name}{at} {how}; a folder with its files would do as well.") from None
    except (HfHubHTTPError, OSError, ValueError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise CheckpointError(f"{name} cannot be fetched from the Hub: {reason}") from None
