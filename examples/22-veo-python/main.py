# SPDX-License-Identifier: Apache-2.0
"""A kernel in C, called from Python with py-veo, NEC's binding.

Needs the packages py-veo, numpy, psutil and future of the Python package index; `./run setup` puts them
into build/py-veo for the test of this example. py-veo's package contains a libveo for the card; replace it by the one of farcall:

    pip install 'numpy<2' psutil future && pip install --no-deps py-veo==1.5.0
    ln -sf /where/farcall/is/lib/libveo.so.1.0.0 .../site-packages/py_veo.libs/libveo-*.so.1.0.0

Runs with: main.py [path of libkernel.so]
"""
import sys

try:
    import numpy
    import veo
except ImportError as reason:
    print(f"skipped: {reason}; package py-veo of the Python package index is needed, see the top of this file")
    sys.exit(77)

process = veo.VeoProc(0)
library = process.load_library(sys.argv[1] if len(sys.argv) > 1 else "./libkernel.so")
context = process.open_context()

values = numpy.arange(1000, dtype=numpy.float64)
there = process.alloc_mem(values.nbytes)
process.write_mem(there, values, values.nbytes)

weighted_sum = library.weighted_sum
weighted_sum.args_type("double *", "long", "double")
weighted_sum.ret_type("double")  # correct only if the library has debug information
total = weighted_sum(context, there, len(values), 0.5).wait_result()
print(total)
process.free_mem(there)
sys.exit(0 if total == 0.5 * values.sum() else 1)
