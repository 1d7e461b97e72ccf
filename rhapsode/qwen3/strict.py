"""JSON read strictly: a key is asked for, with its type, or it is an error.

Knows JSON files and how to say what is wrong with one. Knows no key of any model but transformers' bookkeeping.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rhapsode.errors import CheckpointError

# What transformers writes into any config, with no meaning for this architecture.
_BOOKKEEPING = frozenset({
    "_attn_implementation", "_attn_implementation_autoset", "_commit_hash", "_frame_rate", "_name_or_path",
    "add_cross_attention", "architectures", "attention_dropout", "auto_map", "bad_words_ids",
    "begin_suppress_tokens", "bos_token_id", "chunk_size_feed_forward", "cross_attention_hidden_size",
    "decoder_start_token_id", "diversity_penalty", "do_sample", "dtype", "early_stopping",
    "encoder_no_repeat_ngram_size", "eos_token_id", "exponential_decay_length_penalty", "finetuning_task",
    "forced_bos_token_id", "forced_eos_token_id", "id2label", "initializer_range", "is_decoder",
    "is_encoder_decoder", "label2id", "length_penalty", "max_length", "max_window_layers", "min_length",
    "model_type", "no_repeat_ngram_size", "num_beam_groups", "num_beams", "num_return_sequences",
    "output_attentions", "output_hidden_states", "output_scores", "pad_token_id", "position_id_per_seconds",
    "prefix", "problem_type", "pruned_heads", "remove_invalid_values", "repetition_penalty", "return_dict",
    "return_dict_in_generate", "sep_token_id", "suppress_tokens", "task_specific_params", "temperature",
    "tf_legacy_loss", "tie_encoder_decoder", "tie_word_embeddings", "tokenizer_class", "top_k", "top_p",
    "torch_dtype", "torchscript", "transformers_version", "typical_p", "use_bfloat16", "use_cache",
})  # fmt: skip
_MAX_JSON_BYTES = 64 << 20


class Section:
    """One JSON object that is read key by key; `close` refuses what nobody asked for."""

    def __init__(self, values: Any, file: Path, path: str = "") -> None:
        self.file, self.path = file, path
        if not isinstance(values, dict):
            raise CheckpointError(f"{file}: {path or 'the file'} should be a JSON object, not {_name(values)}.")
        self._values, self._asked = values, set[str]()

    def _get(self, key: str, kinds: tuple[type, ...], wanted: str, default: Any) -> Any:
        self._asked.add(key)
        value = self._values.get(key)
        if value is None:
            if default is not ...:
                return default
            raise CheckpointError(f"{self.file}: {self._label(key)} is missing; {wanted} is wanted.")
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise CheckpointError(f"{self.file}: {self._label(key)} should be {wanted}, not {value!r:.60}.")
        return value

    def _label(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def count(self, key: str, default: Any = ..., *, most: int = (1 << 31) - 1) -> int:
        value = self._get(key, (int,), "a whole number above 0", default)
        if value is not default and not 0 < value <= most:
            wanted = "a whole number above 0" + (f", {most} at most" if value > 0 else "")
            raise CheckpointError(f"{self.file}: {self._label(key)} should be {wanted}, not {value}.")
        return value

    def id(self, key: str) -> int:
        value = self._get(key, (int,), "an id", ...)
        if value < 0:
            raise CheckpointError(f"{self.file}: {self._label(key)} should be an id of 0 or more, not {value}.")
        return value

    def number(self, key: str) -> float:
        value = self._get(key, (int, float), "a number above 0", ...)
        if not 0 < value < 1e30:
            raise CheckpointError(f"{self.file}: {self._label(key)} should be a number above 0, not {value!r:.60}.")
        return float(value)

    def text(self, key: str) -> str:
        return self._get(key, (str,), "a string", ...)

    def counts(self, key: str, default: Any = ...) -> tuple[int, ...]:
        values = self._get(key, (list,), "a list of whole numbers", default)
        if not all(isinstance(v, int) and not isinstance(v, bool) and v > 0 for v in values):
            raise CheckpointError(
                f"{self.file}: {self._label(key)} should hold whole numbers above 0, not {values!r:.80}."
            )
        return tuple(values)

    def items(self, key: str) -> list[Any]:
        return self._get(key, (list,), "a list", [])

    def table(self, key: str) -> dict[str, Any]:
        return self._get(key, (dict,), "a JSON object", {})

    def section(self, key: str, optional: bool = False) -> Section | None:
        values = self._get(key, (dict,), "a JSON object", None if optional else ...)
        return None if values is None else Section(values, self.file, self._label(key))

    def only(self, key: str, *allowed: Any) -> None:
        """A key that changes the mathematics, of which one value is built here. Absent is the first one."""
        self._asked.add(key)
        value = self._values.get(key, allowed[0])
        if value not in allowed:
            raise CheckpointError(
                f"{self.file}: {self._label(key)} is {value!r:.80}; only "
                f"{' or '.join(map(repr, allowed))} is supported."
            )

    def unread(self, *keys: str) -> None:
        self._asked.update(keys)

    def close(self) -> None:
        unknown = sorted(set(self._values) - self._asked - _BOOKKEEPING)
        if unknown:
            raise CheckpointError(
                f"{self.file}: unknown {'key' if len(unknown) == 1 else 'keys'} "
                f"{', '.join(self._label(key) for key in unknown)}; "
                f"this is not a Qwen3-TTS-12Hz configuration as known here."
            )


def _name(value: Any) -> str:
    return {list: "a list", str: "a string", type(None): "null"}.get(type(value), type(value).__name__)


def read_json(file: Path) -> Any:
    """A JSON file, with errors that name it."""
    try:
        if file.stat().st_size > _MAX_JSON_BYTES:
            raise CheckpointError(f"{file} is larger than any configuration; it should be a small JSON file.")
        return json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{file} is missing; the official layout has it.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{file} cannot be read as JSON: {error}.") from None
