"""What all models have in common: opening, what is known of them, closing."""
from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields as dataclass_fields
from typing import Any, ClassVar, TypeVar, Union

from ._library import NULL, Callbacks, c_path, ffi, fields, lib, set_precision
from ._options import keywords
from .device import Context, Device
from .errors import ArgumentError
from .text import Tokenizer

Path = Union[str, "os.PathLike[str]"]
#: A device as `Context` takes it, or a context that is open.
DeviceLike = Union[str, int, Device, Context, None]
#: Is called with the number of a line that cannot be used, and why. False stops the call.
Reject = Callable[[int, str], Any]
Self = TypeVar("Self", bound="Model")


@dataclass(frozen=True)
class ModelInfo:
    """What is known of a model."""

    family: str  #: such as "marian" or "llama"
    kind: str  #: "encoder-decoder", "encoder" or "decoder"
    width: int  #: the width E
    encoder_layers: int  #: the layers of the encoder
    decoder_layers: int  #: the layers of the decoder
    encoder_heads: int  #: heads of its attention
    decoder_heads: int  #: heads of its attention
    source_vocab_size: int  #: how many ids the source side has
    target_vocab_size: int  #: how many ids the target side has
    max_positions: int  #: the most tokens of a sequence
    parameters: int  #: how many numbers it has
    parameter_bytes: int  #: what they take on the device
    estimated_bytes: int  #: what translating takes there
    stored_dtype: str  #: the type of the largest tensor in the file
    weight_format: str  #: the kind of file
    pad_id: int  #: padding, -1 for none
    eos_id: int  #: the end of a sentence
    start_id: int  #: what the decoder reads first
    beam_size: int  #: the beam size that the directory asks for
    multimodal_class: str  #: the class of models of pictures and text of which the text alone is run, "" for none


#: For each kind of model the class that opens it, and what it is.
_CLASSES = {"encoder-decoder": ("tfm.Translator", "an encoder-decoder"),
            "decoder": ("tfm.Generator", "a language model, a decoder without an encoder"),
            "encoder": ("tfm.Embedder or tfm.Encoder", "an encoder without a decoder")}
_FIELDS = tuple(field.name for field in dataclass_fields(ModelInfo))


def read_info(path: Path) -> ModelInfo:
    """What a directory tells of its model, without a device; or why it cannot be run."""
    from ._library import check
    out, options = ffi.new("tfm_model_info *"), ffi.new("tfm_model_options *")
    options.no_tokenizer = True
    check(lib.tfm_model_read_info(out, c_path(path), options))
    return ModelInfo(**fields(out[0], _FIELDS))


class Model:
    """A model on a device. `device` names one, or is a `Context` that several models share; `precision` is what the
    library has, such as "fp32". Any number of threads may use a model, and take turns.

    Use it in a `with` block, or close it, or leave it to the garbage collector."""

    _kind: ClassVar[str | None] = None  # the ModelInfo.kind that it takes; None: any

    @keywords()
    def __init__(self, path: Path, *, device: DeviceLike = None, precision: str | None = None,
                 tokenizer: bool = True) -> None:
        self._check_kind(path)
        self._own = not isinstance(device, Context)
        self.context: Context = device if isinstance(device, Context) else Context(device)
        try:
            self._open(path, precision, tokenizer)
        except BaseException:
            self._close_context()
            raise

    def _check_kind(self, path: Path) -> None:
        """Refuses a model that another class is for, before a device is opened or weights are loaded."""
        if self._kind is None:
            return
        refused = f"{os.fspath(path)} is no model for tfm.{type(self).__name__}"
        modules, config = (os.path.exists(os.path.join(path, name)) for name in ("modules.json", "config.json"))
        if self._kind != "encoder" and modules and not config:
            raise ArgumentError(f"{refused}: it is a sentence-transformers folder; open it with tfm.Embedder")
        info = read_info(path)
        if info.kind != self._kind:
            fits, what = _CLASSES[info.kind]
            raise ArgumentError(f"{refused}: it is {what} ({info.family}); open it with {fits}")

    def _open(self, path: Path, precision: str | None, tokenizer: bool) -> None:
        handle, options = ffi.new("tfm_model **"), ffi.new("tfm_model_options *")
        kept = set_precision(options, precision)
        options.no_tokenizer = not tokenizer
        self.context.open(lib.tfm_model_open, lib.tfm_fleet_open_model, handle, c_path(path), options)
        del kept
        self._adopt(handle, handle, lib.tfm_model_free)

    def _adopt(self, model: Any, handle: Any, free: Callable[[Any], None]) -> None:
        self._model = model
        self._handle = handle
        self._finalizer = weakref.finalize(self, self.context.drop, lambda: free(handle))

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return not self._finalizer.alive

    @property
    def info(self) -> ModelInfo:
        """What is known of the model."""
        with self._use() as model:
            return ModelInfo(**fields(lib.tfm_model_get_info(model)[0], _FIELDS))

    @property
    def tokenizer(self) -> Tokenizer | None:
        """Its tokenizer, or None for a model that was opened without one."""
        with self._use() as model:
            found = lib.tfm_model_tokenizer(model)
        return None if found == NULL else Tokenizer._of_model(found, self)

    def close(self) -> None:
        """Frees the model. Closing twice does nothing."""
        self._finalizer()
        self._close_context()

    def _close_context(self) -> None:
        if self._own:
            self.context.close()

    @contextmanager
    def _use(self) -> Iterator[Any]:
        """A turn on the model's device, with the model for calls."""
        with self.context.turn():
            if self.closed:
                raise ArgumentError(f"this {type(self).__name__} is closed: open another one")
            yield self._model[0]

    def _run(self, callbacks: Callbacks, function: Callable[[Any], int]) -> None:
        """A call on the model."""
        with self._use() as model:
            status = function(model)
            failed = None if status == lib.TFM_OK else self.context.failure(lib.tfm_model_context(model), status)
        if callbacks.error is not None:
            raise callbacks.error
        if failed is not None:
            raise failed

    def __reduce__(self) -> Any:
        raise TypeError(f"a {type(self).__name__} cannot be copied or pickled: it is on a device that is open in this "
                        "process; open it where it is wanted")

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"<tfm.{name}, closed>" if self.closed else f"<tfm.{name} of {self.info.family}>"
