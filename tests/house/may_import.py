"""The kind of contract that import-linter lacks: modules may import what is named, nothing else."""

import sys
from collections.abc import Collection, Iterator

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

NAMES = fields.SetField(subfield=fields.StringField(), required=False, default=set())


class MayImport(Contract):
    """`modules`, except those in `besides`, may import each other, the standard library and
    `may_import`; with `third_party` also every package that is not one of ours.

    A name stands for the module and all that is below it.
    """

    type_name = "may_import"

    modules = fields.SetField(subfield=fields.StringField())
    besides = NAMES
    may_import = NAMES
    third_party = fields.BooleanField(default=False)

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002  the base class's signature
        broken = sorted(self._broken(graph))
        return ContractCheck(kept=not broken, metadata={"broken": broken})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for importer, imported in check.metadata["broken"]:
            output.print_error(f"{importer} is not allowed to import {imported}")

    def _broken(self, graph: ImportGraph) -> Iterator[tuple[str, str]]:
        for importer in graph.modules:
            if _within(importer, self.modules) and not _within(importer, self.besides):
                for imported in graph.find_modules_directly_imported_by(importer):
                    if not self._allowed(imported):
                        yield importer, imported

    def _allowed(self, imported: str) -> bool:
        if _within(imported, self.modules | self.may_import | sys.stdlib_module_names):
            return True
        return self.third_party and not _within(imported, self.session_options["root_packages"])


def _within(module: str, names: Collection[str]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in names)
