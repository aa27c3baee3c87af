"""What a running server says of how it was launched, beside its metrics."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Final, Self

from pydantic import BeforeValidator, model_validator

from specroof.errors import MeasurementError, reject
from specroof.evidence.measurement import Measurement
from specroof.evidence.stated import CACHE_DTYPES
from specroof.hardware.engine import ServerSettings
from specroof.reading.checked import (
    REQUIRED,
    Extract,
    Text,
    WholeAmount,
    read_model,
    whole_amount,
    within,
)
from specroof.reading.json_text import parse_json
from specroof.reading.table import plain_value

#: Where servers say it, beside their metrics: of each row, the first path that answers counts.
#: SGLang 0.5.23 has the first, under its former name as well, and the second; vLLM 0.33.0 the
#: second and the third.
SERVER_PATHS: Final = (("/server_info", "/get_server_info"), ("/v1/models",), ("/version",))


def _turned(switch: bool | None) -> bool | None:
    return None if switch is None else not switch


class _Scheduler(Extract):
    effective_max_running_requests_per_dp: WholeAmount | None = None


class SglangServer(Extract):
    """What SGLang's server was told, or resolved.

    Ignores
        captured sizes and the dtype of recurrent state, whose spelling changed between releases.
    Source
        SGLang 0.5.23, ``srt/arg_groups/fields/schedule.py``.
    """

    model_path: str | None = None
    tp_size: WholeAmount | None = None
    ep_size: WholeAmount | None = None
    dp_size: WholeAmount | None = None
    attn_dp_size: WholeAmount | None = None
    pp_size: WholeAmount | None = None
    enable_dp_attention: bool | None = None
    speculative_algorithm: str | None = None
    speculative_num_draft_tokens: WholeAmount | None = None
    speculative_num_steps: WholeAmount | None = None
    speculative_eagle_topk: WholeAmount | None = None
    quantization: str | None = None
    kv_cache_dtype: str | None = None
    mem_fraction_static: Annotated[float, within("server_memory")] | None = None
    max_running_requests: WholeAmount | None = None
    disable_overlap_schedule: bool | None = None
    # -1 takes prompts whole.
    chunked_prefill_size: Annotated[int, BeforeValidator(int), whole_amount(-1)] | None = None
    enable_mixed_chunk: bool | None = None
    disable_radix_cache: bool | None = None
    internal_states: list[_Scheduler] | None = None
    version: str | None = None

    @model_validator(mode="after")
    def _trees_have_a_depth(self) -> Self:
        if self.is_tree and self.speculative_num_steps is None:
            message = "speculative_num_steps is empty; allowed: a whole number of at least 1"
            raise ValueError(message)
        return self

    @property
    def is_tree(self) -> bool:
        """Whether drafts branch."""
        return (self.speculative_eagle_topk or 1) > 1

    @property
    def draft_len(self) -> int:
        """Drafts on the way from the root, which is counted among SGLang's draft tokens."""
        if self.is_tree:
            return self.speculative_num_steps or 0
        return (self.speculative_num_draft_tokens or 1) - 1

    @property
    def settings(self) -> ServerSettings | None:
        """The settings that this project knows; None where it says none."""
        chunk = self.chunked_prefill_size
        settings = ServerSettings(
            memory_frac=self.mem_fraction_static,
            running=self.max_running_requests,
            overlap=_turned(self.disable_overlap_schedule),
            chunk=None if chunk is None else max(chunk, 0),
            mixed=self.enable_mixed_chunk,
            prefix_cache=_turned(self.disable_radix_cache),
        )
        return settings if settings.stated else None

    @property
    def scheduled(self) -> int | None:
        """Requests that a scheduler runs at a time, by its state; None where it does not say."""
        states = self.internal_states or ()
        return next((state.effective_max_running_requests_per_dp for state in states), None)

    @property
    def attention_groups(self) -> int | None:
        """Groups of devices with separate sequences, all with the same weights."""
        return self.attn_dp_size or (self.dp_size if self.enable_dp_attention else None)


class _Card(Extract):
    id: Text = REQUIRED
    root: str | None = None


class _ModelList(Extract):
    """``/v1/models``: names under which models are served, and their weights."""

    data: list[_Card] = REQUIRED


class _Version(Extract):
    version: Text = REQUIRED


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """What a server says of itself; None of what it does not say.

    Parameters
    ----------
    framework
        Whose page it is; None of a page that several have.
    version
        Its release.
    model_path, roots
        The path or Hub name of its weights; and those of several models, by their served names.
    settings
        As it was launched.
    steps, verified
        Steps of a draft, and positions that a round verifies.
    kv_dtype
        Dtype of its cache, where that was asked for.
    tensor_parallel, expert_parallel, attention_data_parallel, pipeline_parallel
        How the model is spread over devices.
    launched
        What drafts, and in what format weights are, in the words of a result, to be refused as one
        is.
    """

    framework: str | None = None
    version: str | None = None
    model_path: str | None = None
    roots: Mapping[str, str] | None = None
    settings: ServerSettings | None = None
    steps: int | None = None
    verified: int | None = None
    kv_dtype: str | None = None
    tensor_parallel: int | None = None
    expert_parallel: int | None = None
    attention_data_parallel: int | None = None
    pipeline_parallel: int | None = None
    launched: Measurement | None = None


def all_facts(pages: Iterable[ServerFacts]) -> ServerFacts:
    """Return what several pages of one server say; of two that say the same, the first counts.

    Examples
    --------
    >>> found = all_facts([ServerFacts(version="0.33.0"), ServerFacts(version="0.34", steps=3)])
    >>> found.version, found.steps
    ('0.33.0', 3)
    """
    said: dict[str, Any] = {}
    for page in pages:
        for field in fields(page):
            if said.get(field.name) is None:
                said[field.name] = getattr(page, field.name)
    return ServerFacts(**said)


def server_facts(text: str, *, source: str) -> ServerFacts:
    """Return what a page of a server says, by its keys.

    Parameters
    ----------
    text
        JSON: ``/server_info`` of SGLang 0.5.23, ``/v1/models`` of either server, or ``/version`` of
        vLLM 0.33.0.
    source
        How messages name it.

    Raises
    ------
    MeasurementError
        For another text, with the source, the key, the value and what is allowed.

    Source
        SGLang 0.5.23, ``srt/entrypoints/http_server.py``; vLLM 0.33.0, `show_available_models`
        and `show_version` of ``entrypoints/``.

    Examples
    --------
    >>> server_facts('{"tp_size": 2, "max_running_requests": 48}', source="a").settings.running
    48
    """
    allowed = "the JSON of a server's /server_info, /v1/models or /version"
    page = parse_json(text, source=source, error=MeasurementError, allowed=allowed)
    if isinstance(page, dict) and "data" in page:
        cards = read_model(page, _ModelList, place=source, error=MeasurementError).data
        return ServerFacts(roots={card.id: card.root for card in cards if card.root})
    if isinstance(page, dict) and page.keys() == {"version"}:
        known = read_model(page, _Version, place=source, error=MeasurementError)
        return ServerFacts(framework="vllm", version=known.version)
    if not (isinstance(page, dict) and page.keys() & SglangServer.model_fields):
        reject(f"{source}: has none of their keys", allowed, MeasurementError)
    server = read_model(page, SglangServer, place=source, error=MeasurementError)
    drafts = server.speculative_algorithm is not None
    settings = server.settings or ServerSettings()
    # The state of the scheduler says what memory leaves of the limit, which the settings have. Of
    # a server without drafts it is not known to hold with them.
    if drafts and server.scheduled is not None:
        scheduled = server.scheduled * (server.attention_groups or 1)
        settings = replace(settings, running=min(settings.running or scheduled, scheduled))
    return ServerFacts(
        framework="sglang",
        version=server.version,
        model_path=server.model_path,
        settings=settings,
        steps=server.speculative_num_steps if drafts else None,
        verified=server.speculative_num_draft_tokens if drafts else None,
        kv_dtype=CACHE_DTYPES.get((server.kv_cache_dtype or "").casefold()),
        tensor_parallel=server.tp_size,
        expert_parallel=server.ep_size,
        attention_data_parallel=server.attention_groups,
        pipeline_parallel=server.pp_size,
        launched=Measurement(
            place=source,
            method=server.speculative_algorithm,
            draft_len=(server.draft_len or None) if drafts else 0,
            says_drafts="speculative_algorithm" in server.model_fields_set,
            top_k=server.speculative_eagle_topk if drafts else None,
            quantization=server.quantization,
        ),
    )


_SWITCH: Final = {"True": True, "False": False}


class _CacheLabels(Extract):
    """Labels of ``vllm:cache_config_info``: fields of a `CacheConfig`, as Python prints them.

    Source
        vLLM 0.33.0, ``config/cache.py``, `CacheConfig.metrics_info`.
    """

    gpu_memory_utilization: Annotated[float, within("server_memory")] | None = None
    enable_prefix_caching: Annotated[bool, BeforeValidator(_SWITCH.get)] | None = None
    cache_dtype: str | None = None


def cache_facts(labels: Mapping[str, str], *, source: str) -> ServerFacts:
    """Return what vLLM's metrics say of its cache.

    Examples
    --------
    >>> cache_facts({"gpu_memory_utilization": "0.8"}, source="page").settings.memory_frac
    0.8
    """
    place = f"{source}, vllm:cache_config_info"
    values = {name: plain_value(text) for name, text in labels.items()}
    cache = read_model(values, _CacheLabels, place=place, error=MeasurementError)
    settings = ServerSettings(
        memory_frac=cache.gpu_memory_utilization, prefix_cache=cache.enable_prefix_caching
    )
    return ServerFacts(
        settings=settings if settings.stated else None,
        kv_dtype=CACHE_DTYPES.get((cache.cache_dtype or "").casefold()),
    )
