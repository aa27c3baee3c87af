"""Refusals in the words of the command line: the flag, its value and what is allowed."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import specroof
from specroof import OptionError, StudyError
from specroof.cli import app

MODEL = "Qwen/Qwen3-8B"
PREDICT = ["predict", MODEL, "-H", "h100", "--drafter", "ideal"]
ONCE = "allowed: once"


def refusal(*words: str) -> str:
    """Return the one line of a refused call."""
    done = CliRunner().invoke(app, list(words))
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    (line,) = done.stderr.splitlines()
    return line.removeprefix("specroof: ")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--tp", "x"], "--tp is 'x'; allowed: a whole number"),
        (["--max-draft-len", "1.5"], "--max-draft-len is '1.5'; allowed: a whole number"),
        (["--input-len", "long"], "--input-len is 'long'; allowed: a number"),
        (
            ["--concurrency", "0"],
            "--concurrency is 0.0; allowed: a number from 1 to 10000000, or an array of such",
        ),
    ],
)
def test_a_number_is_refused_by_its_flag(words: list[str], says: str) -> None:
    assert refusal(*PREDICT, *words) == says


@pytest.mark.parametrize(
    ("words", "says"),
    [
        # The quotient of the ends, or its logarithm, was infinite: an OverflowError.
        ([*PREDICT, "--batch", "1e-300..1e300"], "--batch is 1e-300; allowed: a number from 1"),
        (
            [*PREDICT, "--show-draft-len", "1e-300..1e300"],
            "--show-draft-len is '1e-300..1e300'; allowed:",
        ),
        (
            ["acceptance", "simulate", "--target", "5e-324..1e308", "--draft", "1,0"],
            "--target is array(",
        ),
        (
            [
                "acceptance",
                "simulate",
                "batch",
                MODEL,
                "-H",
                "h100",
                "--drafter",
                "ideal",
                "--draft-len",
                "9" * 310,
            ],
            "--draft-len is 9999",
        ),
    ],
)
def test_numbers_beyond_floats_are_refused_by_their_flag(words: list[str], says: str) -> None:
    assert refusal(*words).startswith(says)


@pytest.mark.parametrize("engine", ["sglang", "ideal"])
def test_advice_is_about_answers_of_several_tokens(engine: str, tmp_path: Path) -> None:
    # It said "TPOT nan ms", and divided by zero on the ideal engine.
    words = ["advise", MODEL, "-H", "b200", "--input-len", "64", "--concurrency", "8"]
    words += ["--drafter", "eagle3,accept=0.7", "--engine", engine, "--output-len"]
    assert refusal(*words, "1").startswith("--output-len is 1.0; allowed: more than 1 token")
    day = tmp_path / "day.yaml"
    hours = "".join(f"  - {{hour: {hour}, concurrency: 8}}\n" for hour in range(24))
    day.write_text(f"hours:\n{hours}mix:\n  - {{input_len: 64, output_len: 1, weight: 1}}\n")
    words = [word for word in words if word not in {"--input-len", "64", "--output-len"}]
    assert "output-len is 1.0" in refusal(*words, "--traffic", str(day))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["models", "show", MODEL, "--family", "x"], "--family is 'x'; allowed: "),
        (["models", "diff", MODEL, MODEL, "--family", "x"], "--family is 'x'; allowed: "),
        (
            ["acceptance", "fit", "qwen3.6-35b-a3b/mtp/speed-bench", "--law", "line"],
            "--law is 'line'; allowed: constant, decay, beta",
        ),
    ],
)
def test_commands_of_groups_name_their_flags_too(words: list[str], says: str) -> None:
    assert refusal(*words).startswith(says)


@pytest.mark.parametrize(
    ("command", "words", "says"),
    [
        (
            "explain",
            ["--drafter", "medusa,rates=.5/.4", "--draft-len", "4"],
            "--draft-len is 4; allowed: at most 2, the depth of 'medusa,rates=.5/.4'",
        ),
        (
            "worth",
            ["--drafter", "ngram", "--accept-length", "20", "--measured-draft-len", "3"],
            "--accept-length is 20.0; allowed: numbers from 1 to 4",
        ),
        (
            "worth",
            ["--drafter", "ngram", "--price-per-hour", "h100=much"],
            "--price-per-hour is 'h100=much'; allowed: a number of US dollars, or one for each chip, as in "
            "h100=2,b200=4",
        ),
        ("capacity", ["--draft-len", "3"], "--draft-len is 3; allowed: with a drafter"),
        (
            "capacity",
            ["--drafter", "ngram", "--draft-len", "0"],
            "--draft-len is 0; allowed: a whole number from 1",
        ),
        (
            "capacity",
            ["--drafter", "block,cost=.1,block=8", "--draft-len", "5000"],
            "--draft-len is 5000; allowed: a whole number from 0 to 1024",
        ),
        (
            "explore",
            ["-o", "page.html", "--tp", "0"],
            "--tp is 0; allowed: a whole number from 1 to 65536",
        ),
        (
            "explore",
            ["-o", "page.html", "--engine", "fast"],
            "--engine: engine is 'fast'; NVIDIA H100 SXM 80GB has ideal, sglang, vllm, "
            "tensorrt-llm, generic, llama.cpp, llama.cpp-cuda, llama.cpp-vulkan",
        ),
        ("explore", ["-o", ""], "--output is ''; allowed: a file or a folder"),
    ],
)
def test_a_command_refuses_in_its_own_flags(command: str, words: list[str], says: str) -> None:
    assert refusal(command, MODEL, "-H", "h100", *words) == says


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("ngram,accept=2", "accept: rate is 2.0; allowed: a number from 0 to 1"),
        (
            "mtp,accept-length=9@3",
            "accept-length: tokens_per_round is 9.0; allowed: a number from 1 to 4 (draft_len + 1: "
            "the bonus token counts)",
        ),
        ("mtp,beta=0/1", "beta: a is 0.0; allowed: a number above 0"),
        ("mtp,rates=.9/2", "rates[1] is 2.0; allowed: a number from 0 to 1"),
        ("mtp,accept=x", "accept is 'x'; allowed: a number"),
    ],
)
def test_an_acceptance_is_refused_by_its_key(spec: str, says: str) -> None:
    assert refusal("predict", MODEL, "-H", "h100", "--drafter", spec) == f"drafter '{spec}': {says}"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--format", "xml"], "--format is 'xml'; allowed: parquet, csv, jsonl"),
        (["-o", ""], "--output is ''; allowed: a folder, or a URL"),
    ],
)
def test_a_sweep_refuses_its_flags_before_it_runs(words: list[str], says: str) -> None:
    assert refusal("sweep", "demo", *words) == says


# --- what is given twice -------------------------------------------------------------------------

SIZES = ["--input-len", "10", "--output-len", "10"]
TWICE = ["--drafter", "ngram,accept=.5", "--drafter", "NGRAM,accept=.5"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([*PREDICT, "-H", "h100"], "--hardware is given twice; allowed: once"),
        (
            ["predict", MODEL, "-H", "h100,h100", "--drafter", "ideal"],
            f"--hardware: 'h100' is given twice; {ONCE}",
        ),
        (
            ["predict", MODEL, "-H", "b200,h100,H100-SXM", "--drafter", "ideal"],
            f"--hardware: 'H100-SXM' is 'h100' by another name; {ONCE}",
        ),
        (
            ["advise", MODEL, "-H", "h100,h100-sxm", "--drafter", "ideal", *SIZES],
            f"--hardware: 'h100-sxm' is 'h100' by another name; {ONCE}",
        ),
        (
            ["explore", MODEL, "-H", "h100,h100", "-o", "page.html"],
            f"--hardware: 'h100' is given twice; {ONCE}",
        ),
        (
            ["explore", MODEL, MODEL, "-H", "h100", "-o", "page.html"],
            f"models: '{MODEL}' is given twice; {ONCE}",
        ),
        (
            ["explore", MODEL, "-H", "h100", "--engine", "trtllm,tensorrt-llm", "-o", "page.html"],
            f"--engine: 'tensorrt-llm' is 'trtllm' by another name; {ONCE}",
        ),
    ],
)
def test_a_name_is_given_once(words: list[str], says: str) -> None:
    assert refusal(*words) == says


@pytest.mark.parametrize(
    ("command", "more"),
    [("predict", []), ("advise", SIZES), ("capacity", []), ("frontier", [])],
)
def test_a_drafter_is_given_once(command: str, more: list[str]) -> None:
    says = refusal(command, MODEL, "-H", "h100", *TWICE, *more)
    assert says == f"--drafter: 'NGRAM,accept=.5' is 'ngram,accept=.5' by another name; {ONCE}"


def test_chips_of_one_name_with_other_figures_are_compared(
    hardware_folder: Path, tmp_path: Path
) -> None:
    # A calibrated file keeps the name of its chip.
    text = (hardware_folder / "l4.yaml").read_text(encoding="utf-8")
    mine = tmp_path / "mine.yaml"
    mine.write_text(text.replace("300.0e+9", "310.0e+9"), encoding="utf-8")
    words = ["predict", MODEL, "--drafter", "ideal", "-H", f"l4,{mine}"]
    assert CliRunner().invoke(app, words).exit_code == 0
    mine.write_text(text, encoding="utf-8")
    assert refusal(*words) == f"--hardware: '{mine}' is 'l4' by another name; {ONCE}"


def test_objects_are_given_once_too() -> None:
    chip, drafter = specroof.load_hardware("h100"), specroof.load_drafter("ngram,accept=.5")
    with pytest.raises(OptionError, match=r"^drafters: 'ngram,accept=\.5' .*once"):
        specroof.predict(MODEL, chip, drafters=[drafter, drafter])
    with pytest.raises(OptionError, match=r"^hardware: 'NVIDIA H100 SXM 80GB' .*'h100'"):
        specroof.explore(MODEL, ["h100", chip])


def test_a_study_names_targets_and_drafters_once() -> None:
    study = {
        "format_version": 1,
        "targets": [{"model": MODEL, "hardware": ["h100", "b200"]}],
        "drafters": ["ideal"],
        "batch_size": [1],
        "context_len": [128],
    }
    twice = study | {
        "targets": [
            {"model": MODEL, "hardware": ["h100", "b200"]},
            {"model": MODEL, "hardware": "h100-sxm"},
        ],
        "drafters": ["ngram,accept=.5", "ideal", "ngram,accept=.5"],
    }
    with pytest.raises(StudyError) as refused:
        specroof.sweep(twice)
    assert list(refused.value.mistakes) == [
        f"targets: '{MODEL} on 1 x NVIDIA H100 SXM 80GB' is given twice; {ONCE}",
        f"drafters: 'ngram,accept=.5' is given twice; {ONCE}",
    ]
    # On other numbers of devices a chip is another target.
    spread = study | {
        "targets": [
            {"model": MODEL, "hardware": "h100"},
            {"model": MODEL, "hardware": "h100", "tensor_parallel": 2},
        ]
    }
    assert len(specroof.sweep(spread).study.targets) == 2


# --- what an answer is of ------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["explain", "breakeven", "worth", "adaptive", "capacity"])
def test_json_names_the_chip_and_the_devices_apart(command: str) -> None:
    # As in predict: "hardware" is the name alone.
    more = {"adaptive": ["--rounds", "200", "--batch", "1"]}.get(command, [])
    drafter = [] if command == "explain" else ["--drafter", "eagle3,accept=.7"]
    words = [command, MODEL, "-H", "h100", "--tp", "2", *drafter, *more, "--json"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout.splitlines()[-1])
    answer = answer.get("case", answer)
    assert answer["hardware"] == "NVIDIA H100 SXM 80GB"
    assert answer["placement"] == {
        "tensor_parallel": 2, "expert_parallel": 1, "attention_data_parallel": 1,
        "decode_context_parallel": 1, "pipeline_parallel": 1, "nodes": 1,
    }  # fmt: skip


def test_an_explained_pass_says_which_pass_it_is() -> None:
    found = specroof.explain(MODEL, "h100", batch_size=3, context_len=700, query_len=4).to_dict()
    load = found["case"]["load"]
    assert [load[name] for name in ("batch_size", "context_len", "query_len")] == [3, 700, 4]


#: An engine whose memory has no end.
IDEAL = ["--engine", "ideal"]


@pytest.mark.parametrize("command", ["adaptive", "acceptance simulate batch"])
def test_batches_that_a_server_does_not_run_are_said(command: str) -> None:
    # The server is told to run 6 requests at a time.
    words = [*command.split(), MODEL, "-H", "h100", "--drafter", "eagle3,accept=.7"]
    more = {
        "adaptive": ["--rounds", "200", "--server", "running=6"],
        # whose default is 48 where SGLang drafts
        "acceptance simulate batch": ["--batches", "1", "--output-len", "4", "--batch", "49"],
    }
    small, large = ("48", "49") if command == "acceptance simulate batch" else ("6", "7")
    load, beyond = "--batch", "larger batches are priced as if"
    if command == "adaptive":
        load, beyond = "--concurrency", "the rest wait"
    said = f"{small} with 16 drafts of eagle3,accept=.7 (running); {beyond}"
    most = CliRunner().invoke(app, [*words, *more[command], load, large])
    within = CliRunner().invoke(app, [*words, *more[command], load, small])
    assert (said in most.stdout, said in within.stdout) == (True, False), most.output
    endless = CliRunner().invoke(app, [*words, *more[command], "--batch", large, *IDEAL])
    assert endless.exit_code == 0, endless.output
    assert beyond not in endless.stdout


@pytest.mark.parametrize(
    ("question", "name", "value", "says"),
    [
        ("predict", "server", 3, "server is 3; allowed: ServerSettings, a mapping of their keys,"),
        ("predict", "server", ["running=3"], "server is ['running=3']; allowed: ServerSettings"),
        ("capacity", "engine", ["vllm"], "engine is ['vllm']; allowed: the name of an engine"),
        ("advise", "framework", {}, "framework is {}; allowed: sglang, vllm, tensorrt-llm"),
        ("advise", "traffic", 3, "traffic is 3; allowed: a file, or a TrafficFile"),
        ("advise", "traffic", "", "traffic is ''; allowed: a file, or a TrafficFile"),
        ("advise", "prefix_hit_rate", [], "prefix_hit_rate is []; allowed: a number from 0 to 1"),
    ],
)
def test_python_refuses_what_is_of_another_kind(
    question: str, name: str, value: object, says: str
) -> None:
    asked = {"drafters": "ngram,accept=.5"} | (
        {"input_len": 10, "output_len": 10, "concurrency": 1} if question == "advise" else {}
    )
    with pytest.raises(OptionError) as refused:
        getattr(specroof, question)(MODEL, "h100", **asked | {name: value})
    assert str(refused.value).startswith(says)


def test_capacity_understands_engines_in_others_words() -> None:
    ours, theirs = (
        specroof.capacity(MODEL, "mi300x", engine=name).records for name in ("vllm", "vLLM")
    )
    assert ours == theirs
