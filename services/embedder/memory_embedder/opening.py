"""Which embedder the settings choose. Nothing is loaded yet."""

from memory_embedder.contract import Embedder
from memory_embedder.onnx import OnnxEmbedder
from memory_embedder.settings import EmbedderSettings
from memory_embedder.transformer import TransformerEmbedder


def open_embedder(settings: EmbedderSettings) -> Embedder:
    kinds = {"onnx": OnnxEmbedder, "transformer": TransformerEmbedder}
    kind = kinds[settings.embedding_runtime]
    return kind(settings.embedding_model, settings.model_folders, settings.embedding_threads)
