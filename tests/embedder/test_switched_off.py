"""With embeddings off, no machine learning package is imported."""

import os
import subprocess
import sys

SWITCHED_OFF = """
import sys
from memory_embedder import client, contract, drain, models, onnx, settings, windows, worker

read = settings.read()
assert not read.embeddings
onnx.OnnxEmbedder(read.embedding_model, read.model_folders)
client.NoEmbedder("Embeddings are switched off.")
heavy = {"numpy", "onnx", "onnxruntime", "tokenizers", "torch"} & set(sys.modules)
sys.exit(f"imported: {heavy}" if heavy else 0)
"""


def test_embeddings_off_imports_no_machine_learning_package():
    environment = os.environ | {"MCP_EMBEDDINGS": "off"}
    command = [sys.executable, "-c", SWITCHED_OFF]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
