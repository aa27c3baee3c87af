"""Result files, acceptance files and SPECs of strangers: one line each, and no waiting."""

import json
from functools import partial

import pytest

from effort import cpu_bound, cpu_seconds
from specroof import catalog
from specroof.acceptance.published.formats import parse_profiles
from specroof.errors import MeasurementError, OptionError
from specroof.evidence.result_files import read_benchmark
from specroof.reading.json_text import json_values
from tables import refusal, rows

RESULT = {
    "model_id": "m",
    "completed": 1,
    "duration": 1.0,
    "total_input_tokens": 1000,
    "max_concurrency": 4,
}
COLUMNS = "batch_size,context_len,draft_len,tokens_per_s\n"


def results(count: int) -> list[dict[str, object]]:
    """Return results that differ."""
    rates = [100.0 + number for number in range(count)]
    return [RESULT | {"output_throughput": rate, "total_output_tokens": rate} for rate in rates]


def test_time_to_read_json_lines_grows_with_the_file_and_no_faster() -> None:
    def seconds(count: int) -> float:
        text = "\n".join(json.dumps(one) for one in results(count))
        read = partial(json_values, text, source="r.jsonl", error=MeasurementError)
        assert len(list(read())) == count
        return cpu_seconds(lambda: list(read()))

    # Quadratic: 16 times as long.
    assert seconds(16_000) < 10 * seconds(4_000)


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("as_list", [True, False])
def test_each_result_is_found_on_its_line(indent: int | None, as_list: bool) -> None:
    some = results(3)
    spelt = [json.dumps(one, indent=indent) for one in some]
    listed, lines = "\n\n[\n" + ",\n".join(spelt) + "\n]\n", "\n\n" + "\n\n".join(spelt)
    text = listed if as_list else lines
    values = list(json_values(text, source="r", error=MeasurementError))
    assert [value for _, value in values] == some
    for place, value in values:
        number = int(place.split(", line ")[1].split(",")[0])
        rest = "\n".join(text.split("\n")[number - 1 :])
        assert json.JSONDecoder().raw_decode(rest)[0] == value


@pytest.mark.parametrize(
    ("text", "says"),
    [
        *rows("refusals", "broken_results"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a": ' + "9" * 5000 + "}", "is not valid JSON"),
        (COLUMNS + f"8,4096,0,{'1' * 140_000}\n", "line 2: field larger than field limit"),
        (f"{'x' * 140_000},{COLUMNS}8,4096,0,1,1\n", "line 1: field larger than field limit"),
        (f"{'x' * 1000},{COLUMNS}8,4096,0,1,1\n", "is unknown"),
        (COLUMNS + "8,4096,0,nan\n", "tokens_per_s is 'nan'"),
        (COLUMNS + "8,4096,0,1e999\n", "tokens_per_s is '1e999'"),
        (COLUMNS + "8,4096,0,\x1b[31m\n", "tokens_per_s is"),
        (COLUMNS + "8\0,4096,0,1\n", "batch_size is"),
    ],
)
def test_a_broken_results_file_is_one_line(text: str, says: str) -> None:
    assert says in refusal(MeasurementError, read_benchmark, text, source="r")


POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos_total"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        *rows("refusals", "broken_acceptance"),
        (
            f'vllm:spec_decode_num_drafts_total 1e308\n{POSITION}{{position="0"}} 8',
            "num_drafts|drafts is 1e\\+308; allowed: a number from 0 to 1e\\+20",
        ),
        (
            "Drafted: 20 tokens, Per-position acceptance rate: " + "0.5, " * 20_000,
            "positions is 20000; allowed: at most 10000",
        ),
        ("[" * 100_000, "holds no acceptance"),
        ('{"a":' * 40, "^f, line 1: .*32 levels"),
        ('{"a":' * 300_000, "at most 262144 are read"),
        ('{"acceptance_histogram": [' + "9" * 5000 + ", 1]}", "cannot be read as YAML"),
        ("commits,category,a0\n" + "1" * 140_000 + ",x,1", "field larger than field limit"),
    ],
)
def test_a_broken_acceptance_file_is_one_line(text: str, says: str) -> None:
    with cpu_bound(30), pytest.raises(OptionError, match=says) as refused:
        parse_profiles(text, "f", 7)
    assert str(refused.value).isprintable()


def test_json_lines_of_requests_are_added_up() -> None:
    text = '{"acceptance_histogram": [1, 1]}\n{"acceptance_histogram": [0, 2]}\n'
    assert parse_profiles(text, "f")[0].survival == (0.75,)  # 1 and 3 of 4 rounds


@pytest.mark.parametrize("how", ["zero", "geometric", "decay"])
def test_nothing_measured_cannot_go_on(how: str) -> None:
    with pytest.raises(OptionError, match="allowed: with an acceptance of at least one draft"):
        catalog.load_drafter(f"autoregressive,cost=0.1,histogram=14,extrapolate={how}")


def test_a_histogram_that_is_no_list_says_nothing_about_rounds() -> None:
    text = (
        '{"num_speculative_tokens": 1, "marginal_accept_rates": [0.5],'
        ' "acceptance_length_histogram": "many"}'
    )
    assert parse_profiles(text, "f")[0].n_rounds is None


def test_a_label_without_end_is_read_quickly() -> None:
    text = f"{POSITION}{{{'x' * 140_000}}} 8"
    with cpu_bound(30), pytest.raises(OptionError, match="position is empty"):
        parse_profiles(text, "f")
