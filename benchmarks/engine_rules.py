"""Ask the engines' own functions what the rules of `specroof.serving` are tested against.

The functions are taken out of unpacked packages and run with stand-ins for what surrounds them,
so neither torch nor a GPU is needed. Nothing of them is copied: their answers are stored.

    pip download --no-deps sglang==0.5.23 vllm==0.33.0     # and unzip the wheels into FOLDER
    pip download --no-deps sglang==0.5.18                  # and into FOLDER/sglang-0.5.18
    python benchmarks/engine_rules.py FOLDER > tests/golden/serving-rules.json
"""

import ast
import json
import logging
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import combinations, product
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

Row = dict[str, Any]
MIB, GIB = 2**20, 2**30


def taken(path: Path, names: set[str], around: dict[str, Any], owner: str = "") -> dict[str, Any]:
    """Run the definitions of some functions of a file with other names around them."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    if owner:
        classes = [part for part in body if isinstance(part, ast.ClassDef) and part.name == owner]
        body = classes[0].body
    found = [part for part in body if isinstance(part, ast.FunctionDef) and part.name in names]
    for function in found:
        function.decorator_list = []
        for argument in (*function.args.args, *function.args.kwonlyargs):
            argument.annotation = None
        function.returns = None
    missing = names - {function.name for function in found}
    if missing:
        message = f"{path} has no {', '.join(sorted(missing))}"
        raise SystemExit(message)
    module = ast.Module(body=[*found], type_ignores=[])
    quiet = logging.getLogger("quiet")
    quiet.disabled = True
    quiet.warning_once = quiet.warning  # type: ignore[attr-defined]
    names_around = {"math": math, "logger": quiet, "Any": Any, **around}
    exec(compile(module, str(path), "exec"), names_around)  # noqa: S102 - that is the purpose
    return names_around


def threefold(
    *factors: Iterable[Any], allowed: Callable[..., bool] = lambda *_: True
) -> list[tuple[Any, ...]]:
    """Return enough of all allowed combinations that any three values of them are in one.

    Rows are taken one after another, each with the most triples that no row has yet.
    """
    cases = [case for case in product(*factors) if allowed(*case)]
    triples = [{*combinations(enumerate(case), 3)} for case in cases]
    missing, chosen = set().union(*triples), set()
    while missing:
        best = max(range(len(cases)), key=lambda row: len(triples[row] & missing))
        missing -= triples[best]
        chosen.add(best)
    return [cases[row] for row in sorted(chosen)]


#: MiB of a device, devices, latent attention, groups, running requests, a vision tower.
MEMORY_CASES = threefold(
    (16384, 24564, 46068, 81559, 183359), (1, 8), (False, True), (1, 4), (None, 20), (False, True),
    allowed=lambda _, devices, __, groups, *___: groups <= devices,
)  # fmt: skip
#: GiB, bytes of a state, drafted tokens, cache of prefixes, overlap, running requests: with drafts
#: SGLang says 48 before it comes here.
STATE_CASES = threefold(
    (8.0, 17.8, 64.0), (51_500_000, 6_200_000), (0, 4, 6, 16), (True, False), (True, False),
    (None, 48, 200), allowed=lambda *case: not case[2] or case[-1] is not None,
)  # fmt: skip
#: Running requests, tokens of a pass, positions of a verification, a stated limit, Blackwell.
GRAPH_CASES = threefold((6, 48, 1024), (2048, 8192), (1, 4, 16), (None, 100), (False, True))


def module_of(name: str, **names: Any) -> None:
    """Put a stand-in where a function imports a module."""
    module = ModuleType(name)
    for key, value in names.items():
        setattr(module, key, value)
    sys.modules[name] = module


def sglang_memory(srt: Path) -> Iterator[Row]:
    """Yield chunk, captured sizes and static share of servers without settings."""
    groups = srt / "arg_groups"
    view = {"resolving_view": lambda args: args, "resolved_view": lambda args: args}
    sizes = taken(
        groups / "cuda_graph_hook.py",
        {"generate_decode_cuda_graph_batch_sizes", "generate_prefill_cuda_graph_batch_sizes"},
        view,
    )
    module_of("sglang.srt.arg_groups.cuda_graph_hook", **sizes, generate_cpu_graph_batch_sizes=None)
    module_of(
        "sglang.srt.arg_groups.model_overrides.qwen3_vl",
        expand_multimodal_decode_graph_to_running_limit=lambda *_: None,
    )
    state: dict[str, Any] = {}
    memory = taken(
        groups / "memory_hook.py",
        {
            "handle_gpu_memory_settings",
            "reserve_for_graph_mb",
            "reserve_for_deepep_a2a_mb",
            "adjust_mem_fraction_for_vlm",
        },
        {
            **view,
            "copy": __import__("copy"),
            "Backend": SimpleNamespace(DISABLED="off", BREAKABLE="on"),
            "Phase": SimpleNamespace(PREFILL="prefill"),
            "get_device_memory_capacity": lambda _: state["memory_mib"],
            "declare_resolution": lambda args, _, **values: args.__dict__.update(values),
            "use_mla_backend": lambda _: state["latent"],
            "attn_dp_enabled_of": lambda args: args.attn_dp_size > 1,
            "post_capture_kv_sizing_planned": lambda _: False,
            "get_platform": lambda: SimpleNamespace(is_xpu=False),
            "envs": SimpleNamespace(),
            "model_config_of": lambda _: state["model"],
        },
    )
    for case in _memory_cases():
        state |= case
        args = _sglang_args(case["tp"], case["ranks"], case["running"])
        state["model"] = _model(case)
        memory["handle_gpu_memory_settings"](args)
        yield _memory_row(case, args)


def sglang_older_memory(srt: Path) -> Iterator[Row]:
    """Yield the same of a release whose arguments resolve themselves, SGLang 0.5.18."""
    names = {
        "_handle_gpu_memory_settings",
        "reserve_for_graph_mb",
        "reserve_for_deepep_a2a_mb",
        "_generate_decode_cuda_graph_batch_sizes",
        "_generate_prefill_cuda_graph_batch_sizes",
        "adjust_mem_fraction_for_vlm",
    }
    around = {
        "Backend": SimpleNamespace(DISABLED="off", BREAKABLE="on"),
        "resolved_view": lambda args: args,
        "envs": SimpleNamespace(),
    }
    own = taken(srt / "server_args.py", names, around, owner="ServerArgs")
    for case in _memory_cases():
        args = _sglang_args(case["tp"], case["ranks"], case["running"])
        args.dp_size, args.enable_dp_attention = case["ranks"], case["ranks"] > 1
        for name in names:
            setattr(args, name, partial(own[name], args))
        args._resolved = lambda args=args: args  # noqa: SLF001 - what they call themselves
        args.use_mla_backend = lambda latent=case["latent"]: latent
        args.post_capture_kv_sizing_planned = lambda: False
        model = _model(case)
        args.get_model_config = lambda model=model: model
        args._handle_gpu_memory_settings(case["memory_mib"])  # noqa: SLF001
        yield _memory_row(case, args)


def _memory_cases() -> Iterator[Row]:
    """Yield servers: memory, devices, attention, groups, requests and a vision tower."""
    for memory_mib, tp, latent, ranks, running, sees in MEMORY_CASES:
        yield {
            "memory_mib": memory_mib,
            "tp": tp,
            "latent": latent,
            "ranks": ranks,
            "running": running,
            "vision": [27, 1152] if sees else None,
        }


def _model(case: Row) -> SimpleNamespace:
    sizes = case["vision"]
    tower = sizes and SimpleNamespace(num_hidden_layers=sizes[0], hidden_size=sizes[1])
    config = SimpleNamespace(vision_config=tower)
    return SimpleNamespace(is_multimodal=tower is not None, hf_config=config)


def _memory_row(case: Row, args: SimpleNamespace) -> Row:
    return {
        **case,
        "chunk": args.chunked_prefill_size,
        "capture": args.cuda_graph_config.decode.max_bs,
        "prefill_sizes": len(args.cuda_graph_config.prefill.bs),
        "memory_frac": args.mem_fraction_static,
    }


def sglang_sizes(srt: Path) -> Iterator[Row]:
    """Yield the batch sizes for which decoding is captured."""
    own = taken(
        srt / "arg_groups" / "cuda_graph_hook.py",
        {"generate_decode_cuda_graph_batch_sizes"},
        {"resolving_view": lambda args: args},
    )["generate_decode_cuda_graph_batch_sizes"]
    for most, algorithm in product((1, 8, 20, 32, 48, 160, 256, 512), (None, "EAGLE")):
        args = SimpleNamespace(disable_cuda_graph_padding=False, speculative_algorithm=algorithm)
        yield {"most": most, "drafting": algorithm is not None, "sizes": own(args, most)}


def _sglang_args(tp: int, dp: int, running: int | None) -> SimpleNamespace:
    phase = {"max_bs": None, "bs": None, "backend": "on"}
    given = {
        "device": "cuda",
        "tp_size": tp,
        "pp_size": 1,
        "attn_dp_size": dp,
        "max_running_requests": running,
        "max_prefill_tokens": 16384,
        "disaggregation_mode": "null",
        "model_path": "a/model",
        "moe_a2a_backend": "none",
        "_cuda_graph_config_locked": set(),
    }
    nothing = (
        "chunked_prefill_size mem_fraction_static max_total_tokens speculative_num_draft_tokens "
        "speculative_algorithm language_only language_model_only enable_symm_mem "
        "disable_cuda_graph_padding"
    )
    graphs = SimpleNamespace(decode=SimpleNamespace(**phase), prefill=SimpleNamespace(**phase))
    empty = dict.fromkeys(nothing.split())
    return SimpleNamespace(**given, **empty, cuda_graph_config=graphs)


def sglang_states(srt: Path) -> Iterator[Row]:
    """Yield slots of recurrent state, what is left for the cache, and requests."""
    bags = SimpleNamespace()
    configurator = taken(
        srt / "mem_cache" / "kv_cache_configurator.py",
        {"_calculate_mamba_ratio", "_handle_max_mamba_cache", "resolve_max_num_reqs"},
        {
            "MAMBA_CACHE_SIZE_MAX_RUNNING_REQUESTS_RATIO": 3,
            "MAMBA_CACHE_BASE_RATIO_DROP_ON_SKIP": 1,
            "MAMBA_CACHE_V2_ADDITIONAL_RATIO_NO_BUFFER": 1,
            "get_memory": lambda: bags.memory,
            "get_exec": lambda: bags.running,
            "get_schedule": lambda: bags.schedule,
            "get_spec": lambda: bags.spec,
            "get_context": lambda: SimpleNamespace(
                override=lambda _, **values: bags.schedule.__dict__.update(values)
            ),
            "_pd_prefill_skips_mamba_spec_state": lambda: False,
            "envs": SimpleNamespace(
                SGLANG_OPT_MAMBA_SKIP_DECODE_LOCK=SimpleNamespace(get=lambda: False)
            ),
            **taken(srt / "mem_cache/allocation_sizing.py", {"get_mamba_tracking_slots"}, {}),
        },
        owner="KVCacheConfigurator",
    )
    for case in STATE_CASES:
        yield _state_row(bags, configurator, case)


def _state_row(
    bags: SimpleNamespace,
    own: dict[str, Any],
    case: tuple[Any, ...],
) -> Row:
    gib, state_bytes, drafted, prefix, overlap, running = case
    bags.memory = SimpleNamespace(disable_radix_cache=not prefix)
    bags.running = SimpleNamespace(
        mamba=SimpleNamespace(
            enable_mamba_extra_buffer=overlap,
            enable_mamba_extra_buffer_lazy=False,
            enable_linear_replayssm_spec=False,
        )
    )
    bags.spec = SimpleNamespace(speculative_num_draft_tokens=drafted or None)
    bags.schedule = SimpleNamespace(
        disable_overlap_schedule=not overlap,
        max_running_requests=running,
        max_mamba_cache_size=None,
        mamba_full_memory_ratio=0.9,
    )
    server = SimpleNamespace(
        mambaish_config=SimpleNamespace(
            mamba2_cache_params=SimpleNamespace(layers=[0], mamba_cache_per_req=state_bytes)
        ),
        pp_size=1,
        attn_dp_size=1,
        fused_entry_bytes=lambda _: None,
        spec_algorithm=SimpleNamespace(is_none=lambda: not drafted),
        hybrid_gdn_config=None,
        hybrid_kda_config=None,
        extra_mamba_cache_bytes_per_req=0,
        model_config=SimpleNamespace(context_len=262144),
        _calculate_mamba_ratio=lambda: own["_calculate_mamba_ratio"](None),
    )
    row = {
        "rest_bytes": gib * GIB,
        "state_bytes": state_bytes,
        "draft_tokens": drafted,
        "prefix_cache": prefix,
        "overlap": overlap,
        "running": running,
    }
    try:
        left = own["_handle_max_mamba_cache"](server, gib)
        requests = own["resolve_max_num_reqs"](server, 1_000_000)
    except RuntimeError:
        return {**row, "slots": None, "cache_bytes": None, "requests": 0}
    slots = bags.schedule.max_mamba_cache_size
    return {**row, "slots": slots, "cache_bytes": left * GIB, "requests": requests}


def vllm_batches(root: Path) -> Iterator[Row]:
    """Yield the requests that run and the tokens of a pass of servers without settings."""
    usage = SimpleNamespace(LLM_CLASS="library", OPENAI_API_SERVER="server")
    module_of("vllm.usage.usage_lib", UsageContext=usage)
    chips = (
        ("V6E", 32, (0, 0)),
        ("V5E", 16, (0, 0)),
        ("V5P", 95, (0, 0)),
        ("NVIDIA B200", 180, (10, 0)),
        ("NVIDIA H200", 140, (9, 0)),
        ("NVIDIA A100-SXM4-80GB", 80, (8, 0)),
        ("NVIDIA L40S", 45, (8, 9)),
        ("NVIDIA GB10", 119, (12, 1)),
    )
    for name, gib, capability in chips:
        platform = SimpleNamespace(
            get_device_total_memory=lambda gib=gib: gib * GIB,
            get_device_name=lambda name=name: name,
            is_device_capability=lambda asked, own=capability: asked == own,
            is_tpu=lambda name=name: name.startswith("V"),
            is_cpu=lambda: False,
        )
        around = {"current_platform": platform, "GiB_bytes": GIB, "UsageContext": usage}
        path = root / "engine" / "arg_utils.py"
        defaults = taken(path, {"get_batch_defaults"}, around, owner="EngineArgs")
        tokens, seqs = defaults["get_batch_defaults"](None, 1)
        yield {"name": name, "gib": gib, "running": seqs["server"], "tokens": tokens["server"]}


def vllm_graphs(root: Path) -> Iterator[Row]:
    """Yield the captured sizes, in tokens."""
    for running, tokens, verify, stated, blackwell in GRAPH_CASES:
        platform = SimpleNamespace(is_device_capability_family=lambda _, own=blackwell: own)
        module_of("vllm.platforms", current_platform=platform)
        around = {"CUDAGraphMode": SimpleNamespace(NONE=0)}
        own = taken(root / "config" / "vllm.py", {"_set_cudagraph_sizes"}, around, "VllmConfig")
        compilation = SimpleNamespace(
            cudagraph_mode=1,
            max_cudagraph_capture_size=stated,
            cudagraph_capture_sizes=None,
            post_init_cudagraph_sizes=lambda: None,
        )
        config = SimpleNamespace(
            model_config=SimpleNamespace(enforce_eager=False),
            compilation_config=compilation,
            uniform_decode_query_len=verify,
            scheduler_config=SimpleNamespace(max_num_seqs=running, max_num_batched_tokens=tokens),
            speculative_config=None,
            performance_mode="balanced",
        )
        own["_set_cudagraph_sizes"](config)
        row = {"running": running, "tokens": tokens, "verify_len": verify, "stated": stated}
        yield {**row, "blackwell": blackwell, "sizes": compilation.cudagraph_capture_sizes}


def sglang_cells(srt: Path) -> Iterator[Row]:
    """Yield the bytes of a token over all pools, alone and with a layer of EAGLE."""
    pools = _sglang_pools(srt)
    configs = Path(__file__).parents[1] / "model_configs"
    for (name, window_pool), tp, drafting in product(
        (
            ("Qwen/Qwen3-8B", False),
            ("google/gemma-3-27b-it", False),
            ("openai/gpt-oss-120b", True),
            ("google/gemma-4-31B-it", True),
            ("Qwen/Qwen3.5-27B", False),
            ("deepseek-ai/DeepSeek-V3", False),
        ),
        (1, 4),
        (False, True),
    ):
        config = json.loads((configs / f"{name.replace('/', '--')}.json").read_text())
        pools["tp"] = tp
        pool = pools["windows" if window_pool else "whole"](_sglang_kv(config, drafting=drafting))
        yield {"model": name, "tp": tp, "drafting": drafting, "cell": vars(pool)["_cell_size"]}


def _sglang_pools(srt: Path) -> Row:
    """Return the two classes that size pools, by whether windows have one of their own."""
    found: Row = {}
    module_of(
        "sglang.srt.layers.cp.utils",
        get_glm_dsa_layer_split_effective_num_layers=lambda _, layers: layers,
    )
    module_of(
        "sglang.srt.mem_cache.kv_cache_configurator",
        calculate_mla_kv_cache_dim=lambda model_config, **_: (
            model_config.kv_lora_rank + model_config.qk_rope_head_dim
        ),
    )
    around = {
        "torch": SimpleNamespace(
            _utils=SimpleNamespace(_element_size=lambda size: size),
            iinfo=lambda _: SimpleNamespace(max=2**63 - 1),
            int64=None,
        ),
        "envs": SimpleNamespace(
            SGLANG_NPU_ENABLE_SPARSE_KV_OFFLOAD=SimpleNamespace(get=lambda: False)
        ),
        "get_parallel": lambda: SimpleNamespace(attn_dcp_size=1, attn_tp_size=found["tp"]),
        "get_schedule": lambda: SimpleNamespace(swa_full_tokens_ratio=0.8, max_total_tokens=None),
        "get_memory": lambda: SimpleNamespace(enable_unified_memory=False, enable_hisparse=False),
        "mambaish_config": lambda config: config.mambaish,
        "compute_page_shard_scratch_bytes": lambda *_, **__: 0,
        "is_deepseek_dsa": lambda _: False,
        "is_minimax_sparse": lambda _: False,
        "is_float4_e2m1fn_x2": lambda _: False,
        "AttentionArch": SimpleNamespace(MLA="latent"),
        "_dflash_draft_cell_size": lambda _: 0,
    }
    parts = {
        "DefaultPoolConfigurator": {"__init__", "_compute_cell_size"},
        "HybridSWAPoolConfigurator": {
            "__init__",
            "_recompute_cell_size",
            "_full_cell_bytes",
            "_swa_cell_bytes",
        },
    }
    path = srt / "model_executor" / "pool_configurator.py"
    for kind, (owner, names) in zip(("whole", "windows"), parts.items(), strict=True):
        own = taken(path, names, dict(around), owner)
        more = {"_compute_qsa_cell_size": staticmethod(lambda **_: 0)}
        found[kind] = type(owner, (), {**{n: own[n] for n in names}, **more})
    return found


def _sglang_kv(config: Row, *, drafting: bool) -> SimpleNamespace:
    """Return what a pool asks of a model, read from its config."""
    layers = config["num_hidden_layers"]
    heads, width = config.get("num_key_value_heads", 1), config.get("head_dim", 0)
    # Gemma 4 has other heads in full attention; every sixth of Gemma's layers is one, every
    # second of gpt-oss.
    whole_heads = config.get("num_global_key_value_heads", heads)
    whole_width = config.get("global_head_dim", width)
    every = 2 if config["model_type"] == "gpt_oss" else 6
    whole = [layer for layer in range(layers) if (layer + 1) % every == 0]
    interval = config.get("full_attention_interval")
    hybrid = interval and SimpleNamespace(
        full_attention_layer_ids=[layer for layer in range(layers) if (layer + 1) % interval == 0]
    )
    model = SimpleNamespace(
        head_dim=whole_width,
        v_head_dim=whole_width,
        swa_head_dim=width,
        swa_v_head_dim=width,
        get_num_kv_heads=lambda size, _=1: max(1, whole_heads // size),
        get_swa_num_kv_heads=lambda size: max(1, heads // size),
        kv_lora_rank=config.get("kv_lora_rank"),
        qk_rope_head_dim=config.get("qk_rope_head_dim"),
        attention_arch="heads",
        mambaish=hybrid or None,
        context_len=2**17,
        hf_config=None,
    )
    return SimpleNamespace(
        model_config=model,
        kv_cache_dtype=2,
        kv_cache_dtype_str="auto",
        layer_info=SimpleNamespace(
            start_layer=0,
            end_layer=layers,
            num_effective_layers=layers,
            full_attention_layer_ids=whole,
            swa_attention_layer_ids=[layer for layer in range(layers) if layer not in whole],
        ),
        spec_algorithm=SimpleNamespace(
            is_eagle=lambda: drafting, is_standalone=lambda: False, is_dflash_family=lambda: False
        ),
        spec_aux_config=SimpleNamespace(eagle_draft_num_layers=1, eagle_draft_swa_num_layers=None),
        is_draft_worker=False,
        fused_entry_bytes=lambda _: None,
        use_mla_backend=model.kv_lora_rank is not None,
        server_args=SimpleNamespace(enable_hisparse=False),
        pp_size=1,
        sliding_window_size=config.get("sliding_window"),
        page_size=1,
    )


def vllm_groups(root: Path) -> Iterator[Row]:
    """Yield the layers of each kind that blocks are held for."""

    class Spec(str):
        __slots__ = ()

        @staticmethod
        def merge(specs: list[str]) -> str:
            if len(set(specs)) > 1:
                raise ValueError
            return specs[0]

    around = {
        "defaultdict": defaultdict,
        "cdiv": lambda a, b: -(-a // b),
        "create_kv_cache_group_specs": lambda _, grouped: grouped,
    }
    path = root / "v1" / "core" / "kv_cache_planning.py"
    name = "_get_kv_cache_groups_uniform_page_size"
    own = taken(path, {name}, around)[name]
    for layers in ((10, 52), (18, 18), (19, 18), (13, 12), (16, 48), (17, 48), (6, 23), (7, 20)):
        kinds = dict(zip(("whole", "other"), layers, strict=True))
        specs = {f"{kind}.{i}": Spec(kind) for kind, n in kinds.items() for i in range(n)}
        groups = own(specs)
        size = max(len(group) for group in groups)
        held = [size * sum(group[0].startswith(kind) for group in groups) for kind in kinds]
        yield {"layers": layers, "held": held}


def vllm_drafted(root: Path) -> Iterator[Row]:
    """Yield the requests that a block drafter leaves of those that would run."""
    path = root / "config" / "vllm.py"
    names = {"num_lookahead_tokens", "_set_max_num_scheduled_tokens"}
    own = taken(path, names, {}, owner="VllmConfig")
    for method, drafts, tokens in product(("dflash", "dspark"), (3, 7, 15), (2048, 8192)):
        spec = SimpleNamespace(
            use_dspark=lambda own=method: own == "dspark",
            use_dflash=lambda own=method: own == "dflash",
            draft_model_config=SimpleNamespace(hf_config=SimpleNamespace()),
            use_eagle=lambda: True,
            method=method,
        )
        scheduler = SimpleNamespace(
            max_num_batched_tokens=tokens,
            max_num_scheduled_tokens=None,
            max_num_seqs=1024,
            max_num_active_seqs=None,
        )
        config = SimpleNamespace(
            speculative_config=spec, scheduler_config=scheduler, num_speculative_tokens=drafts
        )
        config.num_lookahead_tokens = own["num_lookahead_tokens"](config)
        own["_set_max_num_scheduled_tokens"](config)
        running = scheduler.max_num_active_seqs or scheduler.max_num_seqs
        yield {"kind": method, "drafts": drafts, "tokens": tokens, "running": running}


class _Blocks:
    """A pool of blocks that counts those in use."""

    hash_block_size, num_hash_lookahead_tokens = 544, 0

    def __init__(self) -> None:
        self.null_block, self.used = SimpleNamespace(is_null=True), 0

    def get_new_blocks(self, count: int) -> list[SimpleNamespace]:
        self.used += count
        return [SimpleNamespace(is_null=False) for _ in range(count)]

    def free_blocks(self, blocks: list[SimpleNamespace]) -> None:
        self.used -= sum(not block.is_null for block in blocks)

    def is_block_writable(self, _: SimpleNamespace) -> bool:
        return True


def vllm_states(root: Path) -> Iterator[Row]:
    """Yield the copies of recurrent state that a request holds: on average while it decodes.

    Of a request of 2000 tokens and answers as long, two tokens a round with drafts, the pass before
    still running; blocks of 544 tokens with a cache of prefixes, of all without.
    """
    around: Row = {"cdiv": lambda a, b: -(-a // b), "MambaSpec": object}
    path = root / "v1" / "kv_cache_interface.py"
    around |= taken(path, {"get_mamba_prefill_checkpoint_position"}, around)
    tree = ast.parse((root / "v1" / "core" / "single_type_kv_cache_manager.py").read_text())
    methods = {
        "SingleTypeKVCacheManager": {"remove_skipped_blocks", "_remove_blocks_in_range"},
        "MambaManager": {
            "remove_skipped_blocks",
            "_remove_blocks_in_range",
            "get_num_blocks_to_allocate",
            "allocate_new_blocks",
            "get_num_skipped_tokens",
            "_needs_internal_checkpoint",
            "_relocate_speculative_block",
        },
    }
    kept = [part for part in tree.body if isinstance(part, ast.ClassDef) and part.name in methods]
    for part in kept:
        part.body = [
            own
            for own in part.body
            if isinstance(own, ast.FunctionDef) and own.name in methods[part.name]
        ]
        part.bases = [base for base in part.bases if ast.unparse(base) in methods]
    future = ast.ImportFrom("__future__", [ast.alias("annotations")], 0)
    module = ast.fix_missing_locations(ast.Module([future, *kept], type_ignores=[]))
    exec(compile(module, str(path), "exec"), around)  # noqa: S102 - that is the purpose
    for drafts in (0, 1, 3, 15):
        manager, pool = around["MambaManager"](), _Blocks()
        manager.__dict__ |= {
            "kv_cache_spec": None, "block_pool": pool, "block_size": 544, "num_speculative_blocks": drafts,
            "mamba_cache_mode": "align", "has_prefill_checkpoint_blocks": False, "_null_block": pool.null_block,
            "req_to_blocks": defaultdict(list), "last_state_block_idx": {}, "_num_retired_blocks": {},
            "_allocated_block_reqs": set(), "_checkpoints": {}, "_partial_hit_reqs": {},
            "cached_blocks_this_step": set(), "cache_hit_alignment_tokens": 544,
            "drop_eagle_checkpoint_block": False, "_get_num_evictable_blocks": lambda _: 0,
            "_has_partial_local_hit": lambda *_: False,
        }  # fmt: skip
        computed, running, held = 0, 0, list[int]()
        while computed < 4000:
            decodes = computed >= 2000
            new = 1 + drafts if decodes else 544 * 3 if not computed else 2000 - computed
            manager.remove_skipped_blocks("one", max(0, computed - running))
            end = computed + new
            manager.get_num_blocks_to_allocate("one", end, [], computed, computed, end)
            manager.allocate_new_blocks("one", end, end)
            held += [pool.used] * decodes
            computed, running = computed + (min(2, new) if decodes else new), new
        yield {"drafts": drafts, "mean_copies": round(sum(held) / len(held), 3)}


def main(folder: Path) -> None:
    """Print all rows as JSON, a line each."""
    srt, vllm = folder / "sglang" / "srt", folder / "vllm"
    tables = {
        "sglang_memory": sglang_memory(srt),
        "sglang_older_memory": sglang_older_memory(folder / "sglang-0.5.18" / "sglang" / "srt"),
        "sglang_sizes": sglang_sizes(srt),
        "sglang_states": sglang_states(srt),
        "vllm_batches": vllm_batches(vllm),
        "vllm_graphs": vllm_graphs(vllm),
        "vllm_states": vllm_states(vllm),
        "sglang_cells": sglang_cells(srt),
        "vllm_groups": vllm_groups(vllm),
        "vllm_drafted": vllm_drafted(vllm),
    }
    lines = [
        f'"{name}": [\n' + ",\n".join(json.dumps(row) for row in rows) + "\n]"
        for name, rows in tables.items()
    ]
    source = (
        "sglang 0.5.23 and 0.5.18 and vllm 0.33.0, their own functions; benchmarks/engine_rules.py"
    )
    print("{" + f'"_source": {json.dumps(source)},\n' + ",\n".join(lines) + "}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
