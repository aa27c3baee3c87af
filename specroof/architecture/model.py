"""Blocks, layers and the model that they make up."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

from specroof.architecture.attention import GroupedQueryAttention
from specroof.architecture.base import HEADS, TENSOR, Core, Linear, WeightFormat, by_kv_heads
from specroof.architecture.experts import Experts
from specroof.arrays import whole_within
from specroof.units import Bounds, dtype_bytes


@dataclass(frozen=True, slots=True)
class Block:
    """One residual branch: the matrices of a mixer or feed-forward, and what is not a matrix.

    Parameters
    ----------
    name
        ``"attention"`` or ``"feed_forward"``: the collective of the layer that follows it.
    linears
        Its matrices, in order.
    core
        What it does besides: attention over a cache, a recurrent state, routed experts.
    vector_params
        Elements of norms, sinks and the like: stored, not computed with.
    joins_next
        Whether it runs beside the next block and the two outputs are summed: devices exchange
        the sum, behind the next one.
    norm_over_heads
        Whether queries and keys are normalised over all heads: devices that share the heads add
        up their sums of squares first.
    idle
        Matrices that no token of text is multiplied by, as experts of images: stored alone.
    stored
        Whether its weights are stored with it, and not with an earlier layer that runs them too.
    """

    name: str
    linears: tuple[Linear, ...]
    core: Core | None = None
    vector_params: int = 0
    joins_next: bool = False
    norm_over_heads: bool = False
    idle: tuple[Linear, ...] = ()
    stored: bool = True

    @property
    def label(self) -> str:
        """The name with which its operations begin: the kind of attention, ``"moe"`` or ``"mlp"``.

        A single matrix in the place of attention is ``"linear"``.
        """
        if self.core is not None:
            return self.core.label
        return "linear" if self.name == "attention" else "mlp"

    @property
    def experts(self) -> Experts | None:
        """Its experts, if it has some."""
        return self.core if isinstance(self.core, Experts) else None

    @property
    def matrices(self) -> tuple[Linear, ...]:
        """All stored matrices, those of no token of text as well."""
        return (*self.linears, *self.idle)

    def extended(self, *linears: Linear, n_params: int = 0) -> "Block":
        """Return it with more matrices, or vectors such as the norm that its output passes."""
        vectors = self.vector_params + n_params
        return replace(self, linears=(*self.linears, *linears), vector_params=vectors)

    def without(self, *names: str) -> "Block":
        """Return it without some matrices."""
        kept = tuple(linear for linear in self.linears if linear.name not in names)
        return replace(self, linears=kept)

    @property
    def n_params(self) -> int:
        """All stored elements of the block."""
        core = self.core.n_params if self.core else 0
        return core + self.vector_params + sum(linear.n_params for linear in self.matrices)

    @property
    def idle_params(self) -> int:
        """Stored elements that one token of text does not use."""
        experts = self.experts.idle_params if self.experts else 0
        # a block of nothing else is skipped with its norms
        vectors = self.vector_params if self.idle and not self.linears else 0
        return experts + vectors + sum(linear.n_params for linear in self.idle)

    @property
    def stored_bytes(self) -> float:
        """Bytes of the block in a checkpoint."""
        core = self.core.stored_bytes if self.core else 0.0
        vectors = self.vector_params * dtype_bytes("bf16")
        return core + vectors + sum(linear.stored_bytes for linear in self.matrices)


@dataclass(frozen=True, slots=True)
class Layer:
    """Blocks that follow each other, and how many identical layers there are.

    Parameters
    ----------
    blocks
        Usually two: a mixer and a feed-forward. One in Nemotron-H; three where two mixers run in
        parallel.
    count
        Identical layers, wherever they stand.
    """

    blocks: tuple[Block, ...]
    count: int = 1

    def with_blocks(self, change: Callable[[Block], Block]) -> "Layer":
        """Return the layer with another block in the place of each."""
        return replace(self, blocks=tuple(map(change, self.blocks)))


def stack_layers(layers: Iterable[Layer]) -> tuple[Layer, ...]:
    """Return `layers` with equal ones merged into one of a larger count, first seen first.

    Examples
    --------
    >>> dense = Layer((Block("feed_forward", (Linear("up_proj", 8, 32),)),))
    >>> empty = Layer(())
    >>> [layer.count for layer in stack_layers([dense, empty, dense, dense])]
    [3, 1]
    """
    counts: dict[tuple[Block, ...], int] = {}
    for layer in layers:
        counts[layer.blocks] = counts.get(layer.blocks, 0) + layer.count
    return tuple(Layer(blocks, count) for blocks, count in counts.items())


def ordered_layers(layers: Iterable[Layer]) -> tuple[tuple[Layer, ...], tuple[int, ...]]:
    """Return the distinct ones of single layers with their counts, and where each layer is there.

    Examples
    --------
    >>> dense = Layer((Block("feed_forward", (Linear("up_proj", 8, 32),)),))
    >>> distinct, order = ordered_layers([dense, Layer(()), dense])
    >>> [layer.count for layer in distinct], order
    ([2, 1], (0, 1, 0))
    """
    places: dict[tuple[Block, ...], int] = {}
    order = tuple(places.setdefault(layer.blocks, len(places)) for layer in layers)
    return tuple(Layer(blocks, order.count(place)) for blocks, place in places.items()), order


@dataclass(frozen=True, slots=True)
class VisionTower:
    """What reads images beside a language model: no pass of decoding, and memory of the server.

    Parameters
    ----------
    n_layers, hidden_size
        Its size, where the config names it; servers assume one where it does not.
    depth
        Its layers, where the config calls them so: servers do not find them.
    width
        Its own width, where `hidden_size` is that of its output.
    """

    n_layers: int | None = None
    hidden_size: int | None = None
    depth: int | None = None
    width: int | None = None

    @property
    def weight_bytes(self) -> float:
        r"""Bytes of its layers, :math:`12 L H^2` elements in bf16; 0 where it has no sizes.

        Ignores
            embedding and merger: 5 % for Qwen3.5.
        """
        layers = self.n_layers or self.depth or 0
        width = self.width or self.hidden_size or 0
        return 12 * layers * width**2 * dtype_bytes("bf16")


@dataclass(frozen=True)
class Architecture:
    """A decoder-only language model as numbers.

    Parameters
    ----------
    name
        What outputs call it.
    family
        The `model_type` it was parsed as.
    hidden_size, vocab_size
        Width of the residual stream, and rows of the embedding.
    layers
        Distinct layers with their counts.
    head
        The matrix from hidden state to logits; multiplied by whether tied or not.
    tied_embeddings
        Whether the head is the embedding table, stored once.
    vector_params
        Elements outside of layers that are stored and not computed with (final norm).
    lookup_params
        Elements of tables besides the embedding that are looked up and never multiplied:
        learned positions, embeddings per layer.
    activation_dtype, kv_dtype, state_dtype
        Of activations and attention arithmetic, of cached keys and values, of recurrent state.
    leaves_state
        Whether the config leaves the format of recurrent state to the server.
    notes
        Sentences for the reader: what the config left open, what was left out.
    vision
        What reads images; None for a model of text alone.
    embedding
        Format of the embedding and other tables; None for the dtype of activations.
    vector_dtype
        Of norms, biases and convolutions.
    layer_order
        For each layer, from the first on, its place in `layers`; empty where they follow each
        other as listed.
    positions
        Tokens that its positions reach; None where nothing is stated.
    mtp_modules
        Modules for multi-token prediction that the config names; 1 where it names none.
    mtp_weight
        Format of their matrices; None: that of the layers.
    quantization
        What the config calls the method by which the checkpoint is quantised; empty for none.
    """

    name: str
    family: str
    hidden_size: int
    vocab_size: int
    layers: tuple[Layer, ...]
    head: Linear
    tied_embeddings: bool = False
    vector_params: int = 0
    lookup_params: int = 0
    activation_dtype: str = "bf16"
    kv_dtype: str = "bf16"
    state_dtype: str = "fp32"
    leaves_state: bool = False
    notes: tuple[str, ...] = ()
    vision: VisionTower | None = None
    embedding: WeightFormat | None = None
    vector_dtype: str = "bf16"
    layer_order: tuple[int, ...] = field(default=(), compare=False, repr=False)
    positions: int | None = field(default=None, compare=False)
    mtp_modules: int = 1
    mtp_weight: WeightFormat | None = None
    quantization: str = ""

    def __hash__(self) -> int:
        """Return a hash of what tells most models apart: caches ask for it often."""
        return hash((self.name, self.hidden_size, self.vocab_size, len(self.layers)))

    @property
    def n_layers(self) -> int:
        """Layers of the model."""
        return sum(layer.count for layer in self.layers)

    @cached_property
    def counted_blocks(self) -> tuple[tuple[int, Block], ...]:
        """Every block, behind the number of layers that have it."""
        return tuple((layer.count, block) for layer in self.layers for block in layer.blocks)

    @cached_property
    def stored_blocks(self) -> tuple[tuple[int, Block], ...]:
        """Every block that is stored, once where it runs several times."""
        return tuple((count, block) for count, block in self.counted_blocks if block.stored)

    @cached_property
    def counted_cores(self) -> tuple[tuple[int, Core], ...]:
        """Every core of attention or experts, behind the number of layers that have it."""
        return tuple((n, block.core) for n, block in self.counted_blocks if block.core is not None)

    @cached_property
    def kernels(self) -> frozenset[str]:
        """The classes of kernels that run its cores."""
        return frozenset(core.kernel for _, core in self.counted_cores)

    @cached_property
    def weight_format(self) -> str:
        """The format that most bytes of its layers are in."""
        stored: dict[str, float] = {}
        for count, block in self.stored_blocks:
            for part in (*block.linears, block.core):
                form = getattr(part, "weight", None)
                if part is not None and form is not None:
                    stored[form.name] = stored.get(form.name, 0.0) + count * part.stored_bytes
        return max(stored, key=lambda name: stored[name], default=self.activation_dtype)

    @property
    def layer_kinds(self) -> dict[str, int]:
        """How many blocks there are of each kind of attention and feed-forward."""
        kinds: dict[str, int] = {}
        for count, block in self.counted_blocks:
            kinds[block.label] = kinds.get(block.label, 0) + count
        return kinds

    @cached_property
    def has_experts(self) -> bool:
        """Whether a layer has experts, which tokens are dealt out to."""
        return any(block.experts for _, block in self.counted_blocks)

    @property
    def embedding_params(self) -> int:
        """Elements of the embedding and other tables (lookups: stored and never multiplied)."""
        return self.vocab_size * self.hidden_size + self.lookup_params

    @property
    def table_bytes(self) -> float:
        """Bytes of the embedding and other tables."""
        if self.embedding is None:
            return self.embedding_params * dtype_bytes(self.activation_dtype)
        return self.embedding_params * self.embedding.element_bytes

    @property
    def input_bytes(self) -> float:
        """Bytes of the tables that only the input reads: not an embedding that is the head too."""
        shared = self.vocab_size * self.hidden_size if self.tied_embeddings else 0
        return self.table_bytes * (1 - shared / max(self.embedding_params, 1))

    @cached_property
    def n_params(self) -> int:
        """Stored elements of the language model."""
        head = 0 if self.tied_embeddings else self.head.n_params
        blocks = sum(count * block.n_params for count, block in self.stored_blocks)
        return blocks + head + self.embedding_params + self.vector_params

    @cached_property
    def n_active_params(self) -> int:
        """Stored elements that one token uses: all but the experts it does not visit."""
        idle = sum(count * block.idle_params for count, block in self.stored_blocks)
        return self.n_params - idle

    @cached_property
    def weight_bytes(self) -> float:
        """Bytes of the weights as stored, block scales included."""
        head = 0.0 if self.tied_embeddings else self.head.stored_bytes
        blocks = sum(count * block.stored_bytes for count, block in self.stored_blocks)
        narrow = blocks + head + self.table_bytes + self.vector_params * dtype_bytes("bf16")
        if self.vector_dtype == "bf16":
            return narrow
        # Parts count their vectors as bf16.
        matrices = 0 if self.tied_embeddings else self.head.matrix_params
        for count, block in self.stored_blocks:
            matrices += count * sum(linear.matrix_params for linear in block.matrices)
            if experts := block.experts:
                held = experts.n_experts + experts.n_shared
                matrices += count * held * experts.matrix_params
        vectors = self.n_params - self.embedding_params - matrices
        return narrow + vectors * (dtype_bytes(self.vector_dtype) - dtype_bytes("bf16"))

    @property
    def order(self) -> tuple[int, ...]:
        """Which of `layers` each layer is: `layer_order`, or the order in which they are listed."""
        listed = (place for place, layer in enumerate(self.layers) for _ in range(layer.count))
        return self.layer_order or tuple(listed)

    def first_layers(self, count: int) -> "Architecture":
        """Return the model of the first layers alone, as an early exit runs it (LayerSkip).

        Counts
            embedding, final norm and head of the whole model.
        Source
            Elhoushi et al. 2024 (LayerSkip), arXiv:2404.16710, section 4.3: the first layers draft,
            and exit through the model's own head.

        Raises
        ------
        OptionError
            Unless `count` is a whole number from 1 to the layers of the model.

        Examples
        --------
        >>> dense = Layer((Block("feed_forward", (Linear("up_proj", 8, 32),)),), count=9)
        >>> model = Architecture("toy", "llama", 8, 100, (dense,), Linear("lm_head", 8, 100))
        >>> model.first_layers(4).n_layers
        4
        """
        kept = whole_within("count", count, Bounds(1, self.n_layers, whole=True))
        order = self.order[:kept]
        places = list(dict.fromkeys(order))
        return replace(
            self,
            name=f"first {kept} layers of {self.name}",
            layers=tuple(replace(self.layers[place], count=order.count(place)) for place in places),
            layer_order=tuple(places.index(place) for place in order),
        )

    def expert_layers(self, count: int) -> int:
        """Return how many of the first layers have experts.

        Examples
        --------
        >>> block = Block("feed_forward", (), Experts(8, 2, 16, 32))
        >>> layers = (Layer((), count=3), Layer((block,), count=6))
        >>> toy = Architecture("toy", "llama", 8, 100, layers, Linear("lm_head", 8, 100))
        >>> toy.expert_layers(3), toy.expert_layers(5)
        (0, 2)
        """
        return sum(
            any(b.experts for b in self.layers[place].blocks) for place in self.order[:count]
        )

    def with_host_experts(self, count: int) -> "Architecture":
        """Return the model with the experts of its first layers in the memory of the host.

        Shared experts, the router and layers without experts stay where they are.

        Source
            llama.cpp as it ships with llama-cpp-python 0.3.36, ``common/arg.cpp``.

        Examples
        --------
        >>> moe = Layer((Block("feed_forward", (), Experts(8, 2, 16, 32)),), count=9)
        >>> model = Architecture("toy", "llama", 8, 100, (moe,), Linear("lm_head", 8, 100))
        >>> [layer.count for layer in model.with_host_experts(4).layers]
        [4, 5]
        """
        first = self.order[:count]
        layers = []
        for place, layer in enumerate(self.layers):
            held = first.count(place)
            there = replace(layer.with_blocks(_with_host_experts), count=held)
            layers += [there, replace(layer, count=layer.count - held)]
        return replace(self, layers=tuple(layer for layer in layers if layer.count), layer_order=())

    def with_blocks(self, change: Callable[[Block], Block]) -> "Architecture":
        """Return the model with another block in the place of each."""
        return replace(self, layers=tuple(layer.with_blocks(change) for layer in self.layers))

    def with_weights(self, form: WeightFormat) -> "Architecture":
        """Return the model with its projections, feed-forward and experts stored as `form`.

        Router, compressors, residual mixing, embedding and head keep their format, as engines'
        online quantisation leaves them.
        """
        changed = self.with_blocks(lambda block: _block_with_weights(block, form))
        return replace(changed, mtp_weight=None)


def _with_host_experts(block: Block) -> Block:
    experts = block.experts
    return replace(block, core=replace(experts, on_host=True)) if experts else block


def _block_with_weights(block: Block, form: WeightFormat) -> Block:
    linears, idle = (
        tuple(
            replace(linear, weight=form) if linear.kind == "dense" else linear
            for linear in matrices
        )
        for matrices in (block.linears, block.idle)
    )
    core = replace(block.experts, weight=form) if block.experts else block.core
    return replace(block, linears=linears, core=core, idle=idle)


# --- Blocks that most models and drafters share: grouped-query attention, gated feed-forward -----


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """Sizes of grouped-query attention with its projections.

    Parameters
    ----------
    hidden_size
        Width of the residual stream.
    n_heads, n_kv_heads, head_dim
        Query heads, key and value heads, width of each.
    qkv_bias, out_bias
        Whether the projections have a bias.
    qk_norm
        Whether queries and keys pass a norm of one head's width.
    gated
        Whether the query projection also makes an output gate, and is twice as wide.
    sinks
        Whether each query head has a learned sink.
    value_dim
        Width of a value; as of a key if None.
    window
        Tokens that a query may see; None sees all.
    causal
        False where the new positions of a pass see each other both ways.
    shares_cache
        Whether it reads the keys and values of an earlier layer, and so makes none.
    """

    hidden_size: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    qkv_bias: bool = False
    out_bias: bool = False
    qk_norm: bool = False
    gated: bool = False
    sinks: bool = False
    value_dim: int | None = None
    window: int | None = None
    causal: bool = True
    shares_cache: bool = False

    def block(
        self,
        weight_of: Callable[[str], WeightFormat],
        *,
        in_features: int | None = None,
        opening_norm: bool = True,
    ) -> Block:
        """Return grouped-query attention with its projections, and the norm before it.

        Parameters
        ----------
        weight_of
            The format of a projection by its name.
        in_features
            Width of what queries, keys and values take, where it differs from the residual stream.
        opening_norm
            Whether a norm stands before it.
        """
        width, value_dim = in_features or self.hidden_size, self.value_dim or self.head_dim
        kv_shard = by_kv_heads(self.n_kv_heads)
        query_width = (2 if self.gated else 1) * self.n_heads * self.head_dim
        projections = [
            Linear(name, width, out_features, weight_of(name), shard, bias=self.qkv_bias)
            for name, out_features, shard in (
                ("q_proj", query_width, HEADS),
                ("k_proj", self.n_kv_heads * self.head_dim, kv_shard),
                ("v_proj", self.n_kv_heads * value_dim, kv_shard),
            )
        ]
        out = Linear(
            "o_proj",
            self.n_heads * value_dim,
            self.hidden_size,
            weight_of("o_proj"),
            HEADS,
            bias=self.out_bias,
        )
        if self.shares_cache:
            projections = projections[:1]
        head_norms = (1 if self.shares_cache else 2) * self.head_dim if self.qk_norm else 0
        sinks = self.n_heads if self.sinks else 0
        return Block(
            "attention",
            (*projections, out),
            GroupedQueryAttention(
                *(self.n_heads, self.n_kv_heads, self.head_dim, value_dim),
                *(self.window, self.causal, self.shares_cache),
            ),
            vector_params=(width if opening_norm else 0) + head_norms + sinks,
        )


def gated_pair(
    hidden_size: int,
    width: int,
    into: WeightFormat,
    out: WeightFormat,
    *,
    prefix: str = "",
    bias: bool = False,
) -> tuple[Linear, Linear]:
    """Return the matrices of a gated feed-forward; engines multiply gate and up as one.

    Examples
    --------
    >>> from specroof.architecture.base import BF16
    >>> [linear.matrix_params for linear in gated_pair(8, 32, BF16, BF16)]
    [512, 256]
    """
    return (
        Linear(f"{prefix}gate_up_proj", hidden_size, 2 * width, into, TENSOR, bias=bias),
        Linear(f"{prefix}down_proj", width, hidden_size, out, TENSOR, bias=bias),
    )
