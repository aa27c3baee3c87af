"""What a device can do at best, what an engine reaches of it, and how a model is spread.

A hardware file keeps two kinds of figures apart: `peak` and `interconnect` are datasheet figures,
`engines` holds measured shares of them and fixed costs. Each figure names its source.
"""
