"""From a folder or a Hub id to a folder: the local cache, offline, and what is said when there is nothing."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub import constants, errors

from rhapsode.errors import CheckpointError
from rhapsode.qwen3.checkpoint import CARD, open_checkpoint
from rhapsode.qwen3.hub import FILES, locate

ID = "Someone/Tiny-TTS.v1"
MAIN, OLD = "1" * 40, "2" * 40


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        pytest.fail("a test went to the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert constants.HF_HUB_OFFLINE


@pytest.fixture
def cache(tmp_path: Path, custom_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with two revisions of one repository; branch `main` is the first."""
    cache = tmp_path / "cache"
    repository = cache / f"models--{ID.replace('/', '--')}"
    for commit in (MAIN, OLD):
        shutil.copytree(custom_folder, repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(MAIN)
    (repository / "refs" / "v0").write_text(OLD)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.chdir(tmp_path)
    return repository / "snapshots"


def refusal(*where: Any, **how: Any) -> str:
    with pytest.raises(CheckpointError) as caught:
        locate(*where, **how)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("offline", [True, False])
def test_the_cache_is_found_offline(cache: Path, offline: bool) -> None:
    folder = locate(ID, offline=offline)
    assert folder == cache / MAIN
    assert not (folder / CARD).exists(), "one that is not ours has none, and needs none"
    assert open_checkpoint(folder).codec.sample_rate == 24000


@pytest.mark.parametrize(("revision", "commit"), [(None, MAIN), ("main", MAIN), ("v0", OLD), (OLD, OLD)])
def test_revisions(cache: Path, revision: str | None, commit: str) -> None:
    assert locate(ID, revision=revision, offline=True) == cache / commit


def test_a_revision_that_is_not_there(cache: Path) -> None:
    message = refusal(ID, revision="v9", offline=True)
    assert message == (
        f"{ID} at revision v9 is not in the local cache; without --offline it would be fetched; "
        "a folder with its files would do as well."
    )


def test_an_id_that_is_not_there(cache: Path) -> None:
    assert "is not in the local cache; without --offline it would be fetched" in refusal("Someone/Else", offline=True)
    assert "is not in the local cache and the Hub cannot be reached" in refusal("Someone/Else")


def test_a_folder_wins(cache: Path, tmp_path: Path) -> None:
    (tmp_path / ID).mkdir(parents=True)
    assert locate(ID, offline=True) == Path(ID)
    assert locate(tmp_path) == tmp_path
    assert locate(str(tmp_path)) == tmp_path


def test_a_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "voices").mkdir()
    assert locate("~/voices") == tmp_path / "voices"


@pytest.mark.parametrize(
    "name",
    ["", "voices", "a/b/c", "/no/such/folder", "https://example.org/x", "Qwen/Bad Name", "~nobody-at-all/x", "a\0/b",
     "x" * 5000, "../..x/y"],
)  # fmt: skip
def test_nonsense_is_refused(cache: Path, name: str) -> None:
    assert "is neither a checkpoint folder nor a Hub id such as Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice" in refusal(name)


@pytest.mark.parametrize("name", ["../x", "..", "a/..", "-x/-y", "a--b/c", "a/b.git"])
def test_names_that_look_like_an_id_and_are_none(cache: Path, name: str) -> None:
    if not Path(name).is_dir():
        assert name in refusal(name, offline=True)


def test_a_file_is_no_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "model.gguf").write_text("x")
    assert "neither a checkpoint folder nor a Hub id" in refusal("some/model.gguf")


# ------------------------------------------------------------------ what is asked of the library


def test_what_is_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Revision, token and `offline` hold for all files; pickles and other formats are not among them."""
    asked: dict[str, Any] = {}

    def snapshot(name: str, **how: Any) -> str:
        asked.update(how, name=name)
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    assert locate(ID, revision="v2", offline=True, token="secret") == tmp_path
    assert asked == {
        "name": ID, "revision": "v2", "local_files_only": True, "token": "secret", "allow_patterns": list(FILES),
    }  # fmt: skip
    assert {"config.json", "model.safetensors", "vocab.json", "merges.txt", "generation_config.json", CARD,
            "speech_tokenizer/config.json", "speech_tokenizer/model.safetensors"} <= set(FILES)  # fmt: skip
    assert all(name.endswith((".json", ".txt", ".safetensors")) and "*" not in name for name in FILES)


def hub_error(kind: type[OSError], message: str) -> OSError:
    """An error of the library without the response that it belongs to, whose type differs between versions."""
    error = type(kind.__name__, (kind,), {"__init__": OSError.__init__})(message)
    assert isinstance(error, kind)
    return error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (hub_error(errors.RepositoryNotFoundError, "404"), "no such repository on the Hub"),
        (hub_error(errors.GatedRepoError, "403"), "--token"),
        (hub_error(errors.RevisionNotFoundError, "no such revision\nmore"), "no such revision"),
        (hub_error(errors.LocalEntryNotFoundError, "none"), "is not in the local cache"),
        (hub_error(errors.HfHubHTTPError, "503 server error\nRequest ID"), "503 server error"),
        (ConnectionError("no route"), "no route"),
        (OSError(28, "No space left on device"), "No space left on device"),
        (ConnectionError(), "cannot be fetched"),
    ],
)
def test_errors_of_the_hub_are_one_sentence(monkeypatch: pytest.MonkeyPatch, error: Exception, words: str) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    message = refusal(ID)
    assert ID in message and words in message


def test_a_folder_has_no_revisions(custom_folder: Path) -> None:
    message = refusal(custom_folder, revision="v0")
    assert str(custom_folder) in message and "'v0'" in message
