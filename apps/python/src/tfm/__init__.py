"""Transformer inference and training on any OpenCL device.

    import tfm
    model = tfm.Translator("opus-mt-de-en")
    print(model.translate("Guten Morgen. Wo ist Tom?"))

Models are Hugging Face directories, or names such as "HuggingFaceTB/SmolLM2-135M-Instruct" that `tfm.pull` downloads.
`device=` selects a device of `tfm.devices()`; the default is TFM_DEVICE, or else
the best device. Failures raise a `tfm.Error` with one sentence: what failed, why, what to do. Log lines of the
library go to `logging.getLogger("tfm")`."""
from . import ops
from ._library import lib as _lib, to_str as _to_str
from ._tokens import TranslationResult
from .attention import Attention, AttentionMap
from .chat_template import ChatTemplate
from .device import Context, Device, default_context, devices
from .embedder import Embedder, Encoder, MaskPrediction
from .errors import (AgainError, ArgumentError, BuildError, CancelledError, DeviceError, Error, FileError, FormatError,
                     InputError, NumericError, OutOfMemoryError, UnsupportedError)
from .generator import Generation, GenerationStream, Generator
from .hub import HubModel, models, pull, remove
from .model import Model, ModelInfo, read_info
from .reranker import Ranked, Reranker
from .text import Quality, Score, Tokenizer, evaluate, sentences
from .training import train
from .translator import Translation, Translator

#: The version of the library.
__version__: str = _to_str(_lib.tfm_version())

__all__ = ["AgainError", "ArgumentError", "Attention", "AttentionMap", "BuildError", "CancelledError", "ChatTemplate", "Context", "Device",
           "DeviceError", "Embedder", "Encoder", "Error", "FileError", "FormatError", "Generation", "GenerationStream", "Generator",
           "HubModel", "InputError", "MaskPrediction", "Model", "ModelInfo", "NumericError", "OutOfMemoryError", "Quality", "Ranked", "Reranker", "Score", "Tokenizer",
           "Translation", "TranslationResult", "Translator", "UnsupportedError", "default_context", "devices", "evaluate",
           "models", "ops", "pull", "read_info", "remove", "sentences", "train"]
