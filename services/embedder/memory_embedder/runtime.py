"""onnxruntime, silenced: everything that needs it imports it from here.

Since 1.29 it reports its use, the path of the program and errors to its maker, unless a variable
says otherwise before it is loaded; its function of the same purpose comes too late.
"""

import importlib
from typing import Any

from memory_embedder.settings import forbid_reports

forbid_reports()

onnxruntime: Any = importlib.import_module("onnxruntime")  # it has no types
