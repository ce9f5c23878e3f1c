"""Other processors, on this one: the variables by which each library is limited.

Each library reads its own. On an AMD processor MKL takes its AVX2 kernels whatever its variable
says. A level that the processor lacks is left out.
"""

from pathlib import Path

LEVELS = {
    "AVX-512": {
        "ONEDNN_MAX_CPU_ISA": "AVX512_CORE", "ATEN_CPU_CAPABILITY": "avx512",
        "MKL_ENABLE_INSTRUCTIONS": "AVX512", "OPENBLAS_CORETYPE": "SkylakeX"},
    "AVX2": {
        "ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2", "OPENBLAS_CORETYPE": "Haswell",
        "NPY_DISABLE_CPU_FEATURES":
            "AVX512F,AVX512CD,AVX512_SKX,AVX512_CLX,AVX512_CNL,AVX512_ICL,AVX512_SPR"},
    "SSE4": {
        "ONEDNN_MAX_CPU_ISA": "SSE41", "ATEN_CPU_CAPABILITY": "default",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2", "OPENBLAS_CORETYPE": "Nehalem"},
}
_FLAG = {"AVX-512": "avx512f", "AVX2": "avx2", "SSE4": "sse4_2"}


def levels() -> dict[str, dict[str, str]]:
    """The levels of this processor, from the newest instructions to the oldest."""
    described = Path("/proc/cpuinfo")
    flags = described.read_text(encoding="utf-8").split() if described.is_file() else []
    return {name: given for name, given in LEVELS.items() if _FLAG[name] in flags}


def kinds() -> dict[str, dict[str, str]]:
    """The variables of each kind of machine: instructions with one thread, or more threads."""
    return {name: given | {"OMP_NUM_THREADS": "1"} for name, given in levels().items()} | {
        # Threads that wait for each other sleep: with fewer cores than threads they would spin.
        f"{threads} threads": {"OMP_NUM_THREADS": f"{threads}", "OMP_WAIT_POLICY": "passive"}
        for threads in (2, 4)}
