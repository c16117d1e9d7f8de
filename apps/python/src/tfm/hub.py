"""Models of the Hugging Face hub: downloads, and the cache."""
from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Union

from ._library import NULL, Callbacks, c_path, c_text, check, count_of, ffi, lib, put, to_str
from ._stream import Bar, Progress

Path = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class HubModel:
    """A model in the cache: the files of one commit."""

    name: str  #: "ORG/NAME"
    revision: str  #: branches and tags of the commit, separated by ", "
    commit: str  #: the commit hash
    path: str  #: the folder
    files: int  #: the number of files
    bytes: int  #: their size


def _take(pointer: Any) -> str:
    """The path in a `char **` of the library, which is freed."""
    try:
        return os.fsdecode(ffi.string(pointer[0]))
    finally:
        lib.tfm_text_free(pointer)


def find(name: Path) -> str:
    """The local path of a model: `name` if such a path exists, else the model in the cache. Never downloads."""
    path = ffi.new("char **")
    check(lib.tfm_hub_find(path, c_path(name)))
    return _take(path)


def pull(name: str, *, revision: str | None = None, progress: Progress = True, max_workers: int | None = None) -> str:
    """Downloads a model of the Hugging Face hub into the cache, or completes it, and returns its path.

        model = tfm.Generator(tfm.pull("HuggingFaceTB/SmolLM2-135M-Instruct"))

    `name` is ORG/NAME, with @REVISION, and :FILE.gguf or :Q4_K_M to select a GGUF file. `progress` True shows a tqdm
    bar if tqdm is installed; a function is called with the bytes done and their total, and stops the download by
    returning False. A later call resumes a stopped download."""
    path, options, calls = ffi.new("char **"), ffi.new("tfm_hub_options *"), Callbacks()
    bar = Bar(progress, name, unit="B", unit_scale=True)
    kept = options.revision = c_text(revision)
    put(options, max_workers=count_of(max_workers, "max_workers"))
    options.progress = calls.make("tfm_hub_progress_fn", lambda now: bar(now.bytes, now.total_bytes))
    options.progress_user = NULL
    try:
        calls.check(lib.tfm_hub_pull(path, c_text(name), options))
    finally:
        bar.close()
        del kept
    return _take(path)


def models() -> list[HubModel]:
    """The models in the cache, sorted by name."""
    found, count = ffi.new("tfm_hub_model **"), ffi.new("size_t *")
    check(lib.tfm_hub_list(found, count))
    try:
        return [HubModel(to_str(m.name), to_str(m.refs), to_str(m.commit), os.fsdecode(ffi.string(m.path)), m.files,
                         m.bytes) for m in (found[0][i] for i in range(count[0]))]
    finally:
        lib.tfm_hub_models_free(found)


def remove(name: str, *, dry_run: bool = False) -> int:
    """Deletes a model from the cache, all revisions or one (`name` with @REVISION), or a GGUF file (:FILE). Returns the
    bytes of disk space that this frees; with `dry_run` nothing is deleted."""
    size = ffi.new("uint64_t *")
    check(lib.tfm_hub_remove(size, c_text(name), dry_run))
    return int(size[0])
