"""SGLang stays behind the engine seam."""

from __future__ import annotations

from tests.test_layers import IMPORTS, loaded_by, shown

PACKAGE = "voice_omni.engines.sglang"


def test_only_the_engines_package_imports_sglang() -> None:
    users = [found for found in IMPORTS if found.imported.split(".")[0] == "sglang"]
    assert users
    wrong = [found for found in users if not found.module.startswith(f"{PACKAGE}.")]
    assert not wrong, shown(wrong)


def test_the_rules_of_rows_need_no_sglang() -> None:
    assert not loaded_by(f"{PACKAGE}.rows") & {"sglang", "torch"}
    assert not loaded_by(f"{PACKAGE}.options") & {"sglang", "torch"}
