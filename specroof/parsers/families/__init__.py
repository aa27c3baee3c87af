"""One file a family of models, each with one function per `model_type`."""
