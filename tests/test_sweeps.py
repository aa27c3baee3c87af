"""Sweeps: files that are whole, the same whatever ends a run, and that agree with predict."""

import gc
import io
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml

import specroof
from commands import answered, invoked, refused, run
from folders import contents
from gridded import gridded
from specroof import OptionError, OutputError, read_results, write_sweep
from specroof.catalog import hardware_names
from specroof.errors import CatalogError
from specroof.questions.study import Study, Target, load_study, study_schema
from specroof.questions.sweep import study_of, study_slices
from specroof.sweeps import places
from specroof.sweeps import plan as partition
from specroof.sweeps import run as workers
from specroof.sweeps.plan import Partition, Plan, changes, estimate, extrapolated, plan_of
from tables import rows

pytestmark = pytest.mark.slow

CONTENT: dict[str, Any] = rows("values", "small_studies")["sweeps"]
FORMATS = ("parquet", "csv", "jsonl")


@pytest.fixture
def study(tmp_path: Path) -> str:
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(CONTENT))
    return str(path)


@pytest.mark.parametrize("form", FORMATS)
def test_columns_agree_with_predict_to_the_digit(tmp_path: Path, form: str) -> None:
    found = write_sweep(CONTENT, tmp_path / "out", form=form)
    assert found.done
    frames = list(read_results(tmp_path / "out").frames())
    words = "--batch 1,8,512 --context 1000,30000 --grid"
    for number, frame in enumerate(frames):
        chip, order = ("b200", "l4")[number // 2], number % 2
        drafters = " ".join(f"--drafter {one}" for one in CONTENT["drafters"])
        told = answered(f"predict Qwen/Qwen3-8B -H {chip} {drafters} {words}")
        coords, figures = told["grid"]["coords"], told["grid"]["quantities"]
        assert set(frame.drafter) == {coords["drafter"][order]}
        for name in ("tokens_per_round", "draft_s", "verify_s", "round_s", "speedup", "running"):
            if name not in figures:
                continue
            expected = gridded(told, name, order).ravel()
            np.testing.assert_array_equal(frame[name].to_numpy(np.float64), expected)
        axes = [coords[name] for name in ("context_len", "batch_size", "draft_len")]
        grid = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
        columns = frame[["context_len", "batch_size", "draft_len"]].to_numpy(np.float64)
        np.testing.assert_array_equal(columns, grid)
        best = frame[frame.is_best == 1]
        drafted = [row for row in told["rows"] if row["drafter"] == coords["drafter"][order]]
        assert best.draft_len.tolist() == [row["draft_len"] for row in drafted if row["decision"]]
    assert len(frames) == 4


def test_rows_without_room_stay_and_are_marked(tmp_path: Path) -> None:
    found = write_sweep(CONTENT, tmp_path, form="parquet")
    frame = read_results(tmp_path).to_frame()
    loads = frame.groupby(["target", "drafter", "context_len", "batch_size"], observed=True)
    assert found.without_room == sum(not has_room for has_room in loads.has_room.any()) > 2
    # 512 sequences of 30 000 tokens have 36 x 2 x 8 x 128 keys and values of 2 bytes each: 2.3 TB.
    lost = frame[(frame.hardware == "NVIDIA B200 SXM") & (frame.batch_size == 512)]
    lost = lost[lost.context_len == 30000]
    assert len(lost) == 2 * 17
    assert not lost.has_room.any()
    assert lost[["speedup", "round_s", "tokens_per_s", "running"]].isna().all(axis=None)
    # Past the depth of an acceptance there is room, and no figure.
    deep = frame[frame.drafter.str.contains("survival") & (frame.draft_len > 2)]
    assert deep.speedup.isna().all()
    assert deep.has_room.any()


def test_the_summary_has_the_best_of_each_load(tmp_path: Path) -> None:
    for form in FORMATS:
        write_sweep(CONTENT, tmp_path / form, form=form)
    first, *others = (read_results(tmp_path / form) for form in FORMATS)
    summary, points = first.summary(), first.to_frame()
    assert len(summary) == 4 * 6
    keys = ["target", "drafter", "context_len", "batch_size"]
    best = points.groupby(keys, observed=True, sort=False).speedup.max()
    np.testing.assert_array_equal(summary.speedup.to_numpy(np.float64), best.to_numpy(np.float64))
    rows = specroof.sweep(CONTENT).to_frame()
    same = [
        frame.astype({"drafter": "str"}).sort_values(keys)[list(rows.select_dtypes("number"))]
        for frame in (summary, rows)
    ]
    np.testing.assert_array_equal(*(frame.to_numpy(np.float64) for frame in same))
    texts = ("model", "hardware", "engine", "drafter", "decision", "reason")
    as_text = summary.astype(dict.fromkeys(texts, "str"))
    for other in others:
        found = other.summary().astype({"drafts_run": bool})
        pd.testing.assert_frame_equal(found, as_text, check_dtype=False)


def test_parquet_has_units_names_as_dictionaries_and_says_what_it_is(
    tmp_path: Path, study: str
) -> None:
    run("sweep", study, "--format parquet -o", tmp_path / "out")
    file = pq.ParquetFile(tmp_path / "out" / "points" / "00001.parquet")
    schema = file.schema_arrow
    assert schema.field("round_s").metadata == {b"unit": b"s"}
    assert schema.field("speedup").metadata is None
    assert str(schema.field("model").type).startswith("dictionary")
    said = schema.metadata
    assert said[b"specroof_study"].decode() == Path(study).read_text()
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert said[b"specroof_study_sha256"].decode() == manifest["study_sha256"]
    columns = [file.metadata.row_group(0).column(n) for n in range(file.metadata.num_columns)]
    packed = {one.path_in_schema: set(one.encodings) for one in columns}
    assert "BYTE_STREAM_SPLIT" in packed["speedup"]
    assert "RLE_DICTIONARY" not in packed["speedup"]


def test_slices_write_what_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forms = ("csv", "parquet")
    for form in forms:
        write_sweep(CONTENT, tmp_path / form / "whole", form=form)
    # Of two batch sizes of one context.
    monkeypatch.setattr(partition, "study_slices", partial(study_slices, most=40))
    for form in forms:
        write_sweep(CONTENT, tmp_path / form / "slices", form=form)
    slices, whole = contents(tmp_path / "csv/slices"), contents(tmp_path / "csv/whole")
    assert slices.keys() == whole.keys()
    assert {name for name in whole if slices[name] != whole[name]} <= {"manifest.json"}  # notes
    frames = [read_results(tmp_path / "parquet" / name).to_frame() for name in ("slices", "whole")]
    pd.testing.assert_frame_equal(*frames)
    file = pq.ParquetFile(tmp_path / "parquet/slices/points/00001.parquet")
    assert file.metadata.num_row_groups == 4  # a slice each


def test_a_run_that_was_stopped_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    whole = write_sweep(CONTENT, tmp_path / "whole", form="csv")
    told: list[int] = []
    first = write_sweep(CONTENT, tmp_path / "parts", form="csv", stop=lambda: True)
    assert (first.done, len(first.records)) == (False, 1)
    with pytest.raises(CatalogError, match=r"parts: .*allowed: run it again"):
        read_results(tmp_path / "parts").summary()
    assert read_results(tmp_path / "parts").overviews == []
    # A file whose record is not written yet does not count.
    (tmp_path / "parts" / "points" / "00002.csv").write_text("half")
    assert len(list(read_results(tmp_path / "parts").frames())) == 1
    assert repr(read_results(tmp_path / "parts")).endswith("408 points, not done>")
    done_ns = (tmp_path / "parts" / "points" / "00001.csv").stat().st_mtime_ns
    second = write_sweep(CONTENT, tmp_path / "parts", advance=told.append)
    assert second.done
    assert (tmp_path / "parts" / "points" / "00001.csv").stat().st_mtime_ns == done_ns
    assert sum(told) == whole.plan.points == 408
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")
    # A third has nothing to do, and says so at once.
    told.clear()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "parts").rglob("*")}
    assert write_sweep(CONTENT, tmp_path / "parts", advance=told.append).done
    assert told == [408]
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "parts").rglob("*")} == before


def test_a_run_tells_each_note_of_its_predictions_once(tmp_path: Path) -> None:
    loads = {name: CONTENT[name] for name in ("batch_size", "context_len")}
    noted = [
        note
        for chip in ("b200", "l4")
        for drafter in CONTENT["drafters"]
        for note in specroof.predict("Qwen/Qwen3-8B", chip, drafters=drafter, **loads).notes
    ]
    assert len(noted) > len(set(noted)) > 1
    assert write_sweep(CONTENT, tmp_path, form="csv").notes == list(dict.fromkeys(noted))
    assert write_sweep(CONTENT, tmp_path).notes == list(dict.fromkeys(noted))  # kept in the folder


KILLED = """
import sys
from specroof import write_sweep
print("ready", flush=True)
write_sweep(sys.argv[1], sys.argv[2], form=sys.argv[3])
"""


def test_a_run_that_is_killed_at_any_moment_goes_on_to_the_same_bytes(
    tmp_path: Path, study: str
) -> None:
    write_sweep(study, tmp_path / "whole", form="csv")
    dice = np.random.default_rng(13)
    for end in (signal.SIGKILL, signal.SIGTERM) * 2:
        process: Any = subprocess.Popen(
            [sys.executable, "-c", KILLED, study, str(tmp_path / "parts"), "csv"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        process.stdout.readline()
        time.sleep(float(dice.uniform(0, 0.15)))
        process.send_signal(end)
        process.communicate()
        names = {path.suffix for path in (tmp_path / "parts").rglob("*") if path.is_file()}
        # A file has another name for the moment in which it takes the place of an older one.
        assert names <= {".csv", ".json", ".tmp"}
    write_sweep(study, tmp_path / "parts", form="csv")
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")


def test_an_interrupt_finishes_the_file_in_hand_and_says_how_to_go_on(
    tmp_path: Path, study: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*words: Any) -> Any:
        if not (tmp_path / "out" / "points" / "00001.csv").exists():
            os.kill(os.getpid(), signal.SIGINT)
        return partition.write_partition(*words)

    monkeypatch.setattr(workers, "write_partition", interrupted)
    before = signal.getsignal(signal.SIGINT)
    done = invoked("sweep", study, "--format csv -o", tmp_path / "out")
    assert signal.getsignal(signal.SIGINT) is before
    assert done.exit_code == 130
    assert "interrupted: " in done.stderr
    assert "1 of 4 files are done; the same command goes on" in done.stderr
    assert "408 points" in run("sweep", study, "-o", tmp_path / "out")


def test_what_changed_is_named_three_times_at_most() -> None:
    old = {"a": 1, "b": [{"c": 1}, {"c": 2}], "d": [1], "e": None}
    new = {"a": 2, "b": [{"c": 1}, {"c": 3}, {"c": 4}], "d": [2], "e": "x"}
    assert changes(old, new) == (
        'a was 1, is 2; b.1.c was 2, is 3; b.2 was nothing, is {"c": 4}; and 2 more'
    )


def test_another_study_is_refused_with_what_changed(tmp_path: Path, study: str) -> None:
    out = str(tmp_path / "out")
    quiet = invoked("sweep --format csv --quiet", study, "-o", out)
    assert (quiet.exit_code, quiet.output) == (0, "")
    whole = contents(tmp_path / "out")
    Path(study).write_text(yaml.safe_dump(CONTENT | {"batch_size": [1, 16], "max_draft_len": 4}))
    assert refused("sweep", study, "-o", out) == (
        f"{out} holds another study: loads.0.batch_size was [1.0, 8.0, 512.0], is [1.0, 16.0]; "
        "max_draft_len was 16, is 4; allowed: the same study, or another folder"
    )
    Path(study).write_text(yaml.safe_dump(CONTENT | {"capacity": False}))
    assert "capacity was nothing, is false; allowed" in refused("sweep", study, "-o", out)
    Path(study).write_text(yaml.safe_dump(CONTENT))
    assert refused("sweep", study, "-o", out, "--format", "jsonl") == (
        f"{out} holds csv, and format is jsonl; allowed: the same study, or another folder"
    )
    assert contents(tmp_path / "out") == whole


def test_another_study_is_told_by_what_stands_behind_the_same_names(tmp_path: Path) -> None:
    study = study_of(CONTENT)
    target, drafter = study.targets[0], study.drafters[0]
    chip = target.setup.hardware
    slower = replace(
        target.setup, hardware=replace(chip, peak=replace(chip.peak, memory_bytes=1e9))
    )
    larger = replace(target.model, layers=target.model.layers[:1] + target.model.layers)
    others: dict[str, dict[str, Any]] = {
        "targets.0.setup_sha256": {"targets": (Target(target.model, slower),)},
        "targets.0.model_sha256": {"targets": (Target(larger, target.setup),)},
        "drafters.0.acceptance_sha256": {
            "drafters": (replace(drafter, acceptance=specroof.constant_acceptance(0.71)),)
        },
    }
    shared = {name: CONTENT[name] for name in ("format_version", "targets", "drafters")}
    trace, plans = tmp_path / "trace.csv", list[Plan]()
    for last in (1, 7):
        trace.write_text(f"arrival_s,input_len,output_len\n0,9,9\n{last},9,9\n")
        plans.append(plan_of(study_of(shared | {"workload": {"trace": str(trace)}})))
    soon, late = plans
    assert changes(soon.described, late.described).startswith("loads.0.requests_sha256 was ")
    one = replace(study, targets=(target,), drafters=(drafter,))
    before = plan_of(one)
    for key, parts in others.items():
        plan = plan_of(replace(one, **parts))
        assert changes(before.described, plan.described).startswith(f"{key} was "), key
        assert plan.study_sha256 != before.study_sha256


def test_a_folder_of_unknown_files_is_left_alone(tmp_path: Path, study: str) -> None:
    (tmp_path / "out" / "points").mkdir(parents=True)
    (tmp_path / "out" / "points" / "mine.csv").write_text("mine")
    message = f"{tmp_path / 'out'}/points holds files and no manifest says of what; allowed: the"
    assert refused("sweep", study, "-o", str(tmp_path / "out")).startswith(message)
    with pytest.raises(CatalogError, match=r"/nowhere .*allowed: a folder"):
        read_results(tmp_path / "nowhere")


def test_the_second_sweep_in_a_folder_says_so(tmp_path: Path, study: str) -> None:
    place = places.place_of(str(tmp_path))
    with place.lock():
        told = refused("sweep", study, "-o", str(tmp_path))
    assert (told.startswith(f"{tmp_path}: "), "allowed: another folder" in told) == (True, True)
    run("sweep", study, "-o", tmp_path)


def test_disks_without_locks_are_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: Any) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", no_locks)
    assert write_sweep(CONTENT, tmp_path, form="csv").done


@pytest.mark.parametrize("form", FORMATS)
def test_a_full_disk_is_one_line_and_loses_nothing(
    tmp_path: Path, study: str, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    write_sweep(study, tmp_path / "out", form=form, stop=lambda: True)
    done = contents(tmp_path / "out")

    class Full(io.BytesIO):
        def write(self, _data: Any) -> int:
            raise OSError(28, "No space left on device")

        def writelines(self, _lines: Any) -> None:
            raise OSError(28, "No space left on device")

    written = places.FORMATS[form]
    full = lambda _file, metadata: written(Full(), metadata)  # noqa: E731 - a disk of no size
    with monkeypatch.context() as patch:
        patch.setattr(partition, "FORMATS", {form: full})
        message = refused("sweep", study, "-o", str(tmp_path / "out"))
    assert "No space left on device; allowed: a file in a folder that can be written" in message
    assert contents(tmp_path / "out") == done
    run("sweep", study, "-o", tmp_path / "out")


@pytest.mark.parametrize("folder", ["points", ".unfinished"])
def test_a_run_whose_folder_goes_away_says_so_and_no_more(
    tmp_path: Path, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def removed(*words: Any) -> Any:
        for part in study_slices(*words):
            yield part
            for file in (tmp_path / "out" / folder).iterdir():
                file.unlink()
            (tmp_path / "out" / folder).rmdir()

    monkeypatch.setattr(partition, "study_slices", removed)
    # What Python complains of on its own, of a file that is given up, is an error of this test.
    with pytest.raises(OutputError, match=r"00001\.parquet: No such file or directory; allowed"):
        write_sweep(CONTENT, tmp_path / "out", form="parquet")
    gc.collect()


def test_a_library_that_is_missing_is_one_line(
    tmp_path: Path, study: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = str(tmp_path / "out")
    for name in ("pyarrow", "pyarrow.parquet", "distributed", "fsspec"):
        monkeypatch.setitem(sys.modules, name, None)
    assert "needs pyarrow; install it with: pip install pyarrow" in refused(
        "sweep", study, "-o", out, "--format", "parquet"
    )
    assert "pip install distributed" in refused(
        "sweep", study, "-o", out, "--format", "csv", "--on", "dask://localhost:1"
    )
    assert "pip install fsspec" in refused("sweep", study, "-o", "s3://bucket/folder")


def test_without_pyarrow_the_format_is_csv(monkeypatch: pytest.MonkeyPatch) -> None:
    assert places.best_format(None) == "parquet"
    monkeypatch.setattr(places, "find_spec", lambda _: None)
    assert places.best_format(None) == "csv"


def test_the_help_names_every_key_of_a_study() -> None:
    told = {*re.findall(r"\w+", run("sweep --help"))}
    schema = study_schema()
    blocks = [schema, *schema["$defs"].values()]
    keys = {key for block in blocks for key in block.get("properties", {})}
    assert {"targets", "decode_context_parallel", "framework", "length_range"} <= keys <= told


def test_a_dry_run_says_what_a_study_takes_and_writes_nothing(tmp_path: Path, study: str) -> None:
    stdout = run("sweep", study, "--dry-run --format csv -o", tmp_path / "out")
    assert "points      408\npartitions  4, a csv file each\n" in stdout
    assert not (tmp_path / "out").exists()
    write_sweep(study, tmp_path / "out", form="csv")
    written = sum(path.stat().st_size for path in (tmp_path / "out" / "points").iterdir())
    found = estimate(load_study(study), "csv")
    # All four partitions are tried whole here, so that nothing is extrapolated.
    assert found.size_bytes == written
    assert found.seconds > 0
    assert found.seconds_off == 0.3


def test_a_dry_run_tries_every_drafter_on_targets_here_and_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: set[tuple[int, int]] = set()

    def trial(_plan: Plan, one: Partition, *_rest: object) -> tuple[int, float, int]:
        tried.add((one.target, one.drafter))
        return one.points, float(one.drafter), 100 * one.drafter

    monkeypatch.setattr("specroof.sweeps.plan._trial", trial)
    # Three drafters on each of 90 targets: a step through the files would meet one drafter.
    models = ["Qwen/Qwen3-8B", "Qwen/Qwen3-4B", "Qwen/Qwen3-14B"]
    drafters = [f"autoregressive,accept=0.7,cost=0.{k}" for k in (1, 2, 3)]
    targets = [{"model": models, "hardware": list(hardware_names())[:30]}]
    found = estimate(study_of(CONTENT | {"drafters": drafters, "targets": targets}), "csv")
    assert len(tried) == 9
    assert {drafter for _, drafter in tried} == {1, 2, 3}
    assert {1, 90} < {target for target, _ in tried}
    # 9 of 270 files take 1, 2 or 3 s, each three times: 2 s on average, a variance of 2/3. Seconds
    # are known to two standard errors of the files tried.
    assert found.size_bytes == pytest.approx(90 * (100 + 200 + 300))
    assert found.seconds == pytest.approx(270 * 2)
    standard_error = math.sqrt(2 / 3) / 2 / math.sqrt(9)
    assert found.seconds_off == pytest.approx(math.hypot(0.3, 2 * standard_error))


def test_what_every_file_takes_is_told_apart_from_its_points() -> None:
    # 2 of each file and 0.1 of each point; twice, since the machine had other work the first time.
    assert extrapolated((10, 3.0), (20, 4.0), 1000) == pytest.approx(102)
    assert extrapolated((10, 5.0), (20, 4.0), 1000) == 4
    assert extrapolated((10, 5.0), (10, 4.0), 10) == 4  # all points were tried


def test_a_summary_of_a_large_study_has_forty_lines(tmp_path: Path) -> None:
    models = [name for name in specroof.model_names() if name.startswith("Qwen/")][:20]
    content = CONTENT | {
        "targets": [{"model": models, "hardware": ["b200", "l4"]}],
        "drafters": [f"autoregressive,accept=0.{share},cost=0.1" for share in (5, 8)],
        "batch_size": [1, 8],
        "max_draft_len": 2,
    }
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(content))
    assert len(run(f"sweep {path}").splitlines()) <= 40
    # 20 loads of one model, of which 16 have a line; of 16 all have one.
    for batches, told in ((range(1, 21), True), (range(1, 17), False)):
        one = content | {"targets": [{"model": "Qwen/Qwen3-8B", "hardware": "b200"}]}
        path.write_text(yaml.safe_dump(one | {"batch_size": [*batches], "context_len": [512]}))
        assert ("and loads in between" in run(f"sweep {path}")) is told


def test_workers_need_a_text_that_they_can_read(tmp_path: Path) -> None:
    study = load_study("demo")
    bare = Study(study.targets, study.drafters, study.loads)
    with pytest.raises(OptionError, match=r"^workers .*allowed.*workers=1"):
        write_sweep(bare, tmp_path, form="csv", workers=2)
    assert write_sweep(bare, tmp_path, form="csv").done


def test_a_worker_refuses_a_study_that_is_another_there(tmp_path: Path, study: str) -> None:
    plan = plan_of(load_study(study))
    words = (plan.study.text, plan.study.source)
    with pytest.raises(OptionError, match=r"study.yaml: .*allowed: the same command again"):
        workers.write_by_number(*words, "another", 1, str(tmp_path), "csv")
    places.place_of(str(tmp_path)).prepare(partition.POINTS, partition.UNFINISHED)
    record = workers.write_by_number(*words, plan.study_sha256, 2, str(tmp_path), "csv")
    assert record["name"] == "00002"


def test_a_process_that_is_ended_from_outside_is_one_line(
    tmp_path: Path, study: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "_follow_parent", die)
    message = refused("sweep", study, "-o", str(tmp_path / "out"), "--workers", "2")
    assert message.startswith("workers: a process was ended from outside; allowed: the same comm")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_place_of_fsspec_holds_what_a_folder_holds(tmp_path: Path) -> None:
    pytest.importorskip("fsspec", reason="the extra `cluster` is not installed")
    write_sweep(CONTENT, tmp_path / "folder", form="csv")
    url = "memory://specroof-test"
    assert not write_sweep(CONTENT, url, form="csv", stop=lambda: True).done
    assert write_sweep(CONTENT, url).done
    place = places.place_of(url)
    assert place.names(partition.UNFINISHED) == []
    assert {name: place.read(name) for name in contents(tmp_path / "folder")} == contents(
        tmp_path / "folder"
    )
    pd.testing.assert_frame_equal(
        read_results(url).to_frame(), read_results(tmp_path / "folder").to_frame()
    )
    with pytest.raises(OutputError, match="allowed: a place that fsspec reaches"):
        places.place_of("nowhere://a")
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="allowed: a folder that can be written to"):
        places.place_of(f"file://{tmp_path}/file").prepare("below")


def test_a_file_that_fsspec_cannot_write_leaves_nothing() -> None:
    pytest.importorskip("fsspec", reason="the extra `cluster` is not installed")
    place = places.place_of("memory://specroof-full")
    place.prepare("points")

    def half() -> None:
        with place.open("points/00001.csv") as file:
            file.write(b"half")
            raise OSError(28, "No space left on device")

    with pytest.raises(OutputError, match="No space left on device; allowed: a place that can"):
        half()
    assert place.names("points") == []
    assert place.size("points/00001.csv") is None
    assert place.read("points/00001.csv") is None
    assert place.names("nowhere") == []
    place.remove("nowhere")


@pytest.mark.filterwarnings("ignore")
def test_a_cluster_that_loses_a_worker_writes_the_same_bytes(tmp_path: Path, study: str) -> None:
    distributed = pytest.importorskip("distributed", reason="`cluster` is not installed")
    write_sweep(study, tmp_path / "one", form="csv")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        lost = next(iter(cluster.workers.values()))
        killed: list[int] = []

        def lose_one(_points: int) -> None:
            if not killed:
                killed.append(lost.pid)
                os.kill(lost.pid, signal.SIGKILL)

        address = cluster.scheduler_address.replace("tcp://", "dask://")
        found = write_sweep(study, tmp_path / "two", form="csv", on=address, advance=lose_one)
    assert killed
    assert found.done
    assert contents(tmp_path / "two") == contents(tmp_path / "one")
