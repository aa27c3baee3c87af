"""Time passes and rounds of llama.cpp on one core of this machine, beside what is predicted.

    python benchmarks/cpu_rounds.py [--format Q8_0] [--timings FILE] [--tokens 48] [--repeats 3]

Needs ``pip install llama-cpp-python gguf``. Two models of random weights are written as GGUF files:
shapes of Qwen3-0.6B and a drafter of 97M. Passes of the target of 1 to 8 rows make an engine, as
`specroof measure` does. Rounds of the real engine follow, whose drafts are accepted as dice fall;
what their seconds a token are is predicted from those passes alone, the drafter's too. Seconds are
those of the processor, so that others may use the machine.

``--timings`` reads what an earlier run printed as JSON, and needs no llama.cpp.
"""

import argparse
import ctypes
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any, Final

import numpy as np

from specroof import calibrate, predict
from specroof.hardware.profile import HardwareProfile

#: Layers, hidden size, feed-forward size, heads, KV heads and head size of both models.
SHAPES: Final = {"target": (28, 1024, 3072, 16, 8, 128), "drafter": (6, 512, 1536, 8, 4, 64)}
VOCABULARY: Final = 151936
CONTEXT: Final = 256
ROWS: Final = tuple(range(1, 9))
RATES: Final = (0.5, 0.7, 0.9)
DRAFTS: Final = tuple(range(1, 7))


# --- Models of random weights --------------------------------------------------------------------


def write_model(path: Path, shape: Sequence[int], form: str) -> None:
    """Write a GGUF file of random weights in a format that `gguf` can quantise to."""
    import gguf  # type: ignore[import-not-found]  # noqa: PLC0415 - needed here alone

    layers, hidden, wide, heads, kv_heads, size = shape
    dice, kind = np.random.default_rng(0), gguf.GGMLQuantizationType[form]
    file = gguf.GGUFWriter(str(path), "qwen3")
    for add, value in (
        (file.add_block_count, layers),
        (file.add_context_length, 4096),
        (file.add_embedding_length, hidden),
        (file.add_feed_forward_length, wide),
        (file.add_head_count, heads),
        (file.add_head_count_kv, kv_heads),
        (file.add_key_length, size),
        (file.add_value_length, size),
        (file.add_rope_freq_base, 1e6),
        (file.add_layer_norm_rms_eps, 1e-6),
        (file.add_vocab_size, VOCABULARY),
        (file.add_tokenizer_model, "no_vocab"),
    ):
        add(value)
    matrices = {"token_embd": (VOCABULARY, hidden)}
    vectors = {"output_norm": hidden}
    for layer in range(layers):
        block = {
            "attn_q": (heads * size, hidden),
            "attn_k": (kv_heads * size, hidden),
            "attn_v": (kv_heads * size, hidden),
            "attn_output": (hidden, heads * size),
            "ffn_gate": (wide, hidden),
            "ffn_up": (wide, hidden),
            "ffn_down": (hidden, wide),
        }
        matrices |= {f"blk.{layer}.{name}": rows for name, rows in block.items()}
        norms = {"attn_norm": hidden, "ffn_norm": hidden, "attn_q_norm": size, "attn_k_norm": size}
        vectors |= {f"blk.{layer}.{name}": length for name, length in norms.items()}
    for name, length in vectors.items():
        file.add_tensor(f"{name}.weight", np.ones(length, dtype=np.float32))
    for name, rows in matrices.items():
        values = 0.02 * dice.standard_normal(rows, dtype=np.float32)
        file.add_tensor(f"{name}.weight", gguf.quants.quantize(values, kind), raw_dtype=kind)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


# --- llama.cpp on one core -----------------------------------------------------------------------


class Runner:
    """A model in llama.cpp, on one core."""

    def __init__(self, path: Path) -> None:
        import llama_cpp  # type: ignore[import-not-found]  # noqa: PLC0415 - for timing alone

        self.library = llama_cpp
        model = llama_cpp.llama_model_load_from_file(
            str(path).encode(), llama_cpp.llama_model_default_params()
        )
        chosen = llama_cpp.llama_context_default_params()
        chosen.n_ctx, chosen.n_batch, chosen.n_threads, chosen.n_threads_batch = 1024, 512, 1, 1
        self.context = llama_cpp.llama_init_from_model(model, chosen)
        self.batch = llama_cpp.llama_batch_init(512, 0, 1)
        self.length = 0

    def decode(self, tokens: int, logits: int | None = None) -> None:
        """Run a pass of so many tokens, with logits of the last ones; of all if None."""
        batch, wanted = self.batch, tokens if logits is None else logits
        batch.n_tokens = tokens
        for place in range(tokens):
            batch.token[place] = 100 + (self.length + place) % 1000
            batch.pos[place] = self.length + place
            batch.n_seq_id[place] = 1
            batch.seq_id[place][0] = 0
            batch.logits[place] = int(place >= tokens - wanted)
        if self.library.llama_decode(self.context, batch):
            message = "llama.cpp could not decode"
            raise RuntimeError(message)
        self.length += tokens

    def back_to(self, length: int) -> None:
        """Forget what lies beyond a length."""
        memory = self.library.llama_get_memory(self.context)
        self.library.llama_memory_seq_rm(memory, 0, length, -1)
        self.length = length


def pass_seconds(model: Runner, repeats: int) -> dict[int, float]:
    """Return the median seconds of passes of each number of rows."""
    model.back_to(0)
    model.decode(CONTEXT, 1)
    found: dict[int, list[float]] = {rows: [] for rows in ROWS}
    for _ in range(5 * repeats):
        for rows in ROWS:
            began = time.process_time()
            model.decode(rows)
            found[rows].append(time.process_time() - began)
            model.back_to(CONTEXT)
    return {rows: median(seconds) for rows, seconds in found.items()}


def round_seconds(
    target: Runner,
    drafter: Runner,
    drafts: int,
    rate: float,
    tokens: int,
    dice: np.random.Generator,
) -> dict[str, float]:
    """Return the seconds, tokens and rounds of drafts that are accepted as dice fall.

    As llama-server does it: each draft is a pass of one token, and behind the verification the
    drafter forgets them and reads all that was verified (``tools/server/server-context.cpp``).
    """
    for model in (target, drafter):
        model.back_to(0)
        model.decode(CONTEXT, 1)
    done = rounds = 0
    began = time.process_time()
    while done < tokens:
        start = target.length
        for _ in range(drafts):
            drafter.decode(1)
        target.decode(drafts + 1)
        drafter.back_to(start)
        drafter.decode(drafts + 1, 1)
        accepted = 0
        while accepted < drafts and dice.random() < rate:
            accepted += 1
        target.back_to(start + accepted + 1)
        drafter.back_to(start + accepted + 1)
        done, rounds = done + accepted + 1, rounds + 1
    seconds = time.process_time() - began
    return {"rate": rate, "drafts": drafts, "s": seconds, "tokens": done, "rounds": rounds}


def timings(folder: Path, form: str, tokens: int, repeats: int) -> dict[str, Any]:
    """Return what passes and rounds take."""
    import llama_cpp  # noqa: PLC0415 - for timing alone

    quiet = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
    silent = quiet(lambda *_: None)
    llama_cpp.llama_log_set(silent, None)
    llama_cpp.llama_backend_init()
    runs = {name: Runner(folder / f"{name}.gguf") for name in SHAPES}
    found: dict[str, Any] = {"format": form}
    found |= {name: pass_seconds(run, repeats) for name, run in runs.items()}
    dice = np.random.default_rng(1)
    found["rounds"] = [
        round_seconds(runs["target"], runs["drafter"], drafts, rate, tokens, dice)
        for _ in range(repeats)
        for rate in RATES
        for drafts in DRAFTS
    ]
    return found


# --- The same predicted --------------------------------------------------------------------------


def measured_here(target: Path, seconds: dict[int, float]) -> HardwareProfile:
    """Return this machine, as `specroof measure` writes it from the passes of the target."""
    lines = [
        {
            "tool": "llama.cpp",
            "batch_size": 1,
            "context_len": CONTEXT,
            "positions": rows,
            "pass_s": s,
        }
        for rows, s in seconds.items()
    ]
    passes = "\n".join(map(json.dumps, lines))
    return calibrate({"passes.json": passes}, target, "cpu-2ch-ddr5").hardware


def table(found: dict[str, Any], folder: Path) -> str:
    """Return measured and predicted speedups of rounds, and how far off they are."""
    passes = {
        name: {int(rows): s for rows, s in found[name].items() if int(rows) in ROWS}
        for name in SHAPES
    }
    target, drafter_file = folder / "target.gguf", folder / "drafter.gguf"
    chip = measured_here(target, passes["target"])
    lines, errors = ["rate  drafts  measured  predicted   off"], []
    for rate in RATES:
        drafter = f"model,config={drafter_file},accept={rate}"
        answer = predict(target, chip, drafters=drafter, context_len=[CONTEXT], max_draft_len=6)
        curve = answer.curves[0]
        for drafts in DRAFTS:
            rounds = [
                one for one in found["rounds"] if (one["rate"], one["drafts"]) == (rate, drafts)
            ]
            # Of the drafts that the dice accepted: what is compared is seconds, not luck.
            tokens = mean(one["tokens"] / one["rounds"] for one in rounds)
            # What else the machine does makes a play longer and never shorter: the shortest counts.
            round_s = min(one["s"] / one["rounds"] for one in rounds)
            measured = passes["target"][1] * tokens / round_s
            predicted = float(curve.round_s[0, 0, 0] * tokens / curve.round_s[0, 0, drafts])
            errors.append(predicted / measured - 1)
            lines.append(
                f"{rate:4}  {drafts:6}  {measured:8.2f}  {predicted:9.2f}  {errors[-1]:+4.0%}"
            )
    off = [abs(error) for error in errors]
    lines.append(f"mean {mean(off):.1%}, most {max(off):.1%}")
    return "\n".join(lines)


def main() -> None:
    """Time, or read timings; print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--format", default="Q8_0", help="of the weights, as gguf names them")
    parser.add_argument("--timings", type=Path, help="JSON of an earlier run")
    parser.add_argument("--tokens", type=int, default=48, help="of each play of rounds")
    parser.add_argument("--repeats", type=int, default=3)
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for model, shape in SHAPES.items():
            write_model(folder / f"{model}.gguf", shape, words.format)
        if words.timings is None:
            found = timings(folder, words.format, words.tokens, words.repeats)
            print(json.dumps(found))
        else:
            found = json.loads(words.timings.read_text(encoding="utf-8"))
        print(table(found, folder))


if __name__ == "__main__":
    main()
