"""Compare specroof with the model classes of transformers: ``python benchmarks/oracle FOLDER...``.

Of every config in the folders that transformers knows: parameters and active parameters exactly,
the same model from the file that transformers saves again, and of the model made small the FLOP of
a decoding step and the elements of its cache. Differences are explained in `differences.yaml`.
"""

import argparse
import fnmatch
import json
import os
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "critical")
warnings.simplefilter("ignore")

import torch  # noqa: E402
import yaml  # noqa: E402
from models import decode_flops, model_config, n_params, saved_again, text_model  # noqa: E402
from shrink import shrunken  # noqa: E402

from specroof.architecture.latent import LatentAttention  # noqa: E402
from specroof.architecture.model import Architecture  # noqa: E402
from specroof.cost import ForwardPass, Options, forward_cost, state_bytes  # noqa: E402
from specroof.cost.forward import kv_cache_bytes  # noqa: E402
from specroof.errors import SpecroofError  # noqa: E402
from specroof.parsers import parse_config  # noqa: E402
from specroof.parsers.drafters import parse_drafter_config  # noqa: E402

#: One shorter than all windows of the small models, and one longer than them.
_CONTEXTS = (6, 21)
_EXPLAINED = Path(__file__).with_name("differences.yaml")


@dataclass(frozen=True)
class Finding:
    """One comparison: what specroof has, and what transformers has."""

    model: str
    check: str
    ours: Any
    theirs: Any
    model_type: str = ""

    @property
    def agrees(self) -> bool:
        """Whether both are equal."""
        return bool(self.ours == self.theirs)


def findings(path: Path, seen: set[str]) -> Iterator[Finding]:
    """Yield the comparisons of one config."""
    name = path.stem
    text = path.read_text()
    values = json.loads(text)
    try:
        config = model_config(values)
    except Exception as error:  # noqa: BLE001  # whatever a configuration class raises
        yield Finding(
            name, "build", "read", f"{type(error).__name__}: {str(error).splitlines()[0][:80]}"
        )
        return
    again = saved_again(config)
    try:
        ours = parse_config(text, source=path.name)
    except SpecroofError as refusal:
        yield Finding(name, "build", str(refusal)[:80], "read")
        return
    yield _saved(name, "saved", lambda: _bare(parse_config(again, source=path.name)), _bare(ours))
    drafter = _drafter(text)
    if drafter is not None:
        yield _saved(name, "drafts", lambda: _drafter(again), drafter)
    try:
        theirs = n_params(text_model(config, "meta"))
    except Exception as error:  # noqa: BLE001  # whatever a model class raises
        yield Finding(
            name, "build", "read", f"{type(error).__name__}: {str(error).splitlines()[0][:80]}"
        )
        return
    yield Finding(name, "parameters", (ours.n_params, ours.n_active_params), theirs)
    yield from _small_findings(name, values, seen)


def _saved(name: str, check: str, parse: Any, expected: Any) -> Finding:
    try:
        found = parse()
    except SpecroofError as refusal:
        return Finding(name, check, str(refusal)[:80], "read")
    return Finding(name, check, "same" if found == expected else "another model", "same")


def _bare(model: Architecture) -> Architecture:
    # Servers reserve memory for a tower by the keys of the very file, which saving renames.
    return replace(model, name="", family="", notes=(), vision=None)


def _drafter(text: str) -> Any:
    """Return the draft layers that a checkpoint holds, None where specroof knows of none."""
    try:
        return parse_drafter_config(text, source="c.json", kind="mtp", name="c")
    except SpecroofError:
        return None


def _small_findings(name: str, values: dict[str, Any], seen: set[str]) -> Iterator[Finding]:
    """Yield the comparisons of the model made small, multiplied on this machine, once a type."""
    inner = values.get("text_config", values)
    small = shrunken(inner) | {"model_type": _model_type(values)}
    if small["model_type"] in seen:
        return
    seen.add(small["model_type"])
    try:
        config = model_config(small)
        text = saved_again(config.get_text_config())
        model = text_model(config, "cpu").float()
        ours = parse_config(text, source=f"{name} made small")
        for context_len in _CONTEXTS:
            flops, cached = decode_flops(model, context_len)
            yield Finding(name, f"flops-{context_len}", _flops(ours, context_len), flops)
            yield Finding(name, f"cache-{context_len}", _elements(ours, context_len), cached)
    except Exception as error:  # noqa: BLE001  # whatever a model class raises
        yield Finding(
            name, "small", "runs", f"{type(error).__name__}: {str(error).splitlines()[0][:80]}"
        )


def _flops(model: Architecture, context_len: int) -> int:
    """Return the FLOP of matmuls of a decoding step, latents expanded as transformers does.

    Of recurrent states it multiplies element by element, which its counter does not see.
    """
    step = ForwardPass(batch_size=1, query_len=1, context_len=context_len)
    ops = [op for op in forward_cost(model, step) if op.kind not in {"convolution", "state"}]
    return round(sum(float(op.flops) * op.count for op in ops)) + sum(
        layer.count * _expansion(block.core, context_len)
        for layer in model.layers
        for block in layer.blocks
        if isinstance(block.core, LatentAttention)
    )


def _expansion(core: LatentAttention, context_len: int) -> int:
    """Return what expanding the latents of all tokens costs beyond absorbing the matrices."""
    key_dim, value_dim = core.head_dims or (0, 0)
    up_projection = 2 * core.latent_dim * core.n_heads * (key_dim - core.rope_dim + value_dim)
    cached = context_len if core.window is None else min(context_len, core.window - 1)
    attended = cached + 1 if core.top_k is None else min(cached + 1, core.top_k)
    absorbed = 2 * core.n_heads * (2 * core.latent_dim + core.rope_dim) * attended
    expanded = 2 * core.n_heads * (key_dim + value_dim) * (cached + 1)
    return cached * up_projection + expanded - absorbed


def _elements(model: Architecture, context_len: int) -> int:
    """Return the elements that one sequence keeps: keys, values, recurrent state."""
    wide = replace(model, activation_dtype="fp32")
    kept = float(kv_cache_bytes(model, context_len, Options(kv_dtype="bf16"))) / 2
    return round(kept + state_bytes(wide, Options(state_dtype="fp32")) / 4)


def main() -> int:
    """Print every difference with its reason, and the sums; return 1 for what has none."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    folders = parser.parse_args().folders
    paths = [path for folder in folders for path in sorted(folder.glob("*.json"))]
    rows = _explanations()
    used: set[int] = set()
    read: list[str] = []
    seen: set[str] = set()
    torch.set_num_threads(1)
    counts: Counter[str] = Counter()
    unexplained = 0
    for path in paths:
        if path.name.endswith(".hf_quant_config.json"):
            continue
        model_type = _model_type(json.loads(path.read_text()))
        read.append(path.stem)
        for found in findings(path, seen):
            found = replace(found, model_type=model_type)  # noqa: PLW2901
            check = found.check.split("-")[0]
            if found.agrees:
                counts[f"{check}: same"] += 1
                continue
            index = next((i for i, row in enumerate(rows) if _explains(row, found)), None)
            reason = "NOT EXPLAINED" if index is None else rows[index]["why"]
            used |= set() if index is None else {index}
            unexplained += index is None
            counts[f"{check}: {'not explained' if index is None else 'explained'}"] += 1
            sys.stdout.write(
                f"{found.model} {found.check}: specroof {found.ours}, "
                f"transformers {found.theirs}: {reason}\n"
            )
    # Rows of types are judged by files of that name: the defaults of a class.
    stale = [
        row
        for index, row in enumerate(rows)
        if index not in used and any(_names(row, [name]) for name in read)
    ]
    for row in stale:
        sys.stdout.write(f"explains nothing: {row}\n")
    for what, count in sorted(counts.items()):
        sys.stdout.write(f"{count:5d} {what}\n")
    return 1 if unexplained or stale else 0


def _explanations() -> list[dict[str, str]]:
    rows: list[dict[str, str]] = yaml.safe_load(_EXPLAINED.read_text())
    return rows


def _explains(row: dict[str, str], found: Finding) -> bool:
    return fnmatch.fnmatch(found.check, row["check"]) and _names(
        row, [found.model, found.model_type]
    )


def _names(row: dict[str, str], names: Iterable[str]) -> bool:
    """Tell whether a row is about a model, by its file or its type."""
    return any(fnmatch.fnmatch(name, one) for one in row["models"].split() for name in names)


def _model_type(values: dict[str, Any]) -> str:
    inner = values.get("text_config", values)
    return str(inner.get("model_type", values["model_type"]))


if __name__ == "__main__":
    sys.exit(main())
