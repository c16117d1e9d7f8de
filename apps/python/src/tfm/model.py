"""The base class of models: opening, info, closing."""
from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields as dataclass_fields
from typing import Any, ClassVar, TypeVar, Union

from ._library import NULL, Callbacks, c_path, ffi, fields, lib, set_adapters, set_precision
from ._options import keywords
from .device import Context, Device
from .errors import ArgumentError
from .hub import find
from .text import Tokenizer

Path = Union[str, "os.PathLike[str]"]
#: An adapter: a directory or a name, or with a scale.
Adapter = Union[Path, tuple[Path, float]]
Adapters = Union[Adapter, Sequence[Adapter]]
#: A device selector of `Context`, or an open context.
DeviceLike = Union[str, int, Device, Context, None]
#: Called with the index of a bad line and the reason. False stops the call.
Reject = Callable[[int, str], Any]
Self = TypeVar("Self", bound="Model")


@dataclass(frozen=True)
class ModelInfo:
    """Model info."""

    family: str  #: such as "marian" or "llama"
    kind: str  #: "encoder-decoder", "encoder" or "decoder"
    width: int  #: the width E
    encoder_layers: int  #: the layers of the encoder
    decoder_layers: int  #: the layers of the decoder
    encoder_heads: int  #: attention heads of the encoder
    decoder_heads: int  #: attention heads of the decoder
    source_vocab_size: int  #: vocabulary size of the source side
    target_vocab_size: int  #: vocabulary size of the target side
    max_positions: int  #: maximum tokens of a sequence
    parameters: int  #: the number of parameters
    parameter_bytes: int  #: their size on the device
    estimated_bytes: int  #: estimated device memory for translation
    stored_dtype: str  #: the type of the largest tensor in the file
    weight_format: str  #: the file format of the weights
    pad_id: int  #: padding token, -1 for none
    eos_id: int  #: EOS token
    start_id: int  #: first input token of the decoder
    beam_size: int  #: the directory's beam size
    multimodal_class: str  #: the multimodal class of the directory, of which only the text model is run, or ""


#: For each kind of model, the class for it and a description.
_CLASSES = {"encoder-decoder": ("tfm.Translator", "an encoder-decoder"),
            "decoder": ("tfm.Generator", "a decoder-only model"),
            "encoder": ("tfm.Embedder or tfm.Encoder", "an encoder-only model")}
_FIELDS = tuple(field.name for field in dataclass_fields(ModelInfo))


def read_info(path: Path) -> ModelInfo:
    """Reads the info of a model directory, without a device. Raises an error if the model is not supported."""
    from ._library import check
    out, options = ffi.new("tfm_model_info *"), ffi.new("tfm_model_options *")
    options.no_tokenizer = True
    check(lib.tfm_model_read_info(out, c_path(path), options))
    return ModelInfo(**fields(out[0], _FIELDS))


class Model:
    """A model on a device. `path` is its directory, or its name on the Hugging Face hub if the cache has it (`tfm.pull`
    downloads it). `device` is a device selector, or a `Context` shared by several models; `precision` is
    "fp32", "int8", "fp16" or "bf16", and `kv_precision` the same for the KV cache. `activation_precision` "fp32" rounds no
    inputs of layers. `ctx_size` is the maximum number of tokens of a prompt and its text, for decoder-only models.
    `adapters` are LoRA adapters of PEFT, added in turn: a path or name, a pair of it and a scale, or a list of both. Any
    number of threads may use a model; calls are serialized.

    Use it in a `with` block, close it, or leave it to the garbage collector."""

    _kind: ClassVar[str | None] = None  # the accepted ModelInfo.kind; None: any

    @keywords()
    def __init__(self, path: Path, *, device: DeviceLike = None, precision: str | None = None,
                 activation_precision: str | None = None, kv_precision: str | None = None, ctx_size: int | None = None,
                 tokenizer: bool = True, adapters: Adapters | None = None) -> None:
        path = find(path)
        self._adapters = adapters
        self._activation_precision = activation_precision
        self._check_kind(path)
        self._kv_options = (kv_precision, ctx_size)
        self._own = not isinstance(device, Context)
        self.context: Context = device if isinstance(device, Context) else Context(device)
        try:
            self._open(path, precision, tokenizer)
        except BaseException:
            self._close_context()
            raise

    def _check_kind(self, path: Path) -> None:
        """Refuses a model for another class, before opening a device or loading weights."""
        if self._kind is None:
            return
        refused = f"{os.fspath(path)} is not a model for tfm.{type(self).__name__}"
        modules, config = (os.path.exists(os.path.join(path, name)) for name in ("modules.json", "config.json"))
        if self._kind != "encoder" and modules and not config:
            raise ArgumentError(f"{refused}: it is a sentence-transformers folder; open it with tfm.Embedder")
        info = read_info(path)
        if info.kind != self._kind:
            fits, what = _CLASSES[info.kind]
            raise ArgumentError(f"{refused}: it is {what} ({info.family}); open it with {fits}")

    def _open(self, path: Path, precision: str | None, tokenizer: bool) -> None:
        handle, options = ffi.new("tfm_model **"), ffi.new("tfm_model_options *")
        kept = (set_adapters(options, self._adapters), set_precision(options, precision),
                set_precision(options, self._activation_precision, "activation_precision"))
        kv_precision, ctx_size = self._kv_options
        set_precision(options, kv_precision, "kv_precision")
        options.ctx_size = ctx_size or 0
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
        """Model info."""
        with self._use() as model:
            return ModelInfo(**fields(lib.tfm_model_get_info(model)[0], _FIELDS))

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer, or None if the model was opened without one."""
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
        """Locks the model's context and yields the pointer of the model."""
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
        raise TypeError(f"a {type(self).__name__} cannot be copied or pickled: it is bound to a device of this "
                        "process; open it in the other process")

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"<tfm.{name}, closed>" if self.closed else f"<tfm.{name} of {self.info.family}>"
