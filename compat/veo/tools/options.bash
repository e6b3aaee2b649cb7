# SPDX-License-Identifier: Apache-2.0

# Translates options of NEC's compilers. Most options that the system's compilers lack concern vectors,
# listings or the card, and are dropped; some have another name. Other options are passed unchanged to
# the compiler, which reports unknown ones.

# translate <option>: sets the array `words` to the options for the compiler, which may be empty. Sets
# ftrace, and for nfort default_real.
translate() {
  words=()
  case $1 in
    # Optimisation. Level 4 becomes level 3.
    -O4) words=(-O3) ;;

    # Performance analysis.
    -ftrace) ftrace=yes ;;
    -no-ftrace) ftrace= ;;
    -proginf | -no-proginf | -mmemory-trace* | -mno-memory-trace*) ;;

    # Messages and lists.
    -report-* | -no-report-*) ;;
    -fdiag-inline=* | -fdiag-parallel=* | -fdiag-vector=* | -fdiag-system-header) ;;
    -assembly-list | -clear | -noqueue) ;;
    -Wextension | -Wobsolescent | -Woverflow-errors) ;;
    # Dropped, because this compiler warns of other things than NEC's; -Werror=name stays.
    -Werror) ;;
    -Wunknown-pragma) words=(-Wunknown-pragmas) ;;
    -Wno-unknown-pragma) words=(-Wno-unknown-pragmas) ;;
    -traceback | -traceback=* | -no-traceback) ;;

    # Target processor.
    -march=ve* | -mtune=ve* | -mabi=* | -mfp16-format=*) ;;
    -static-nec | -shared-nec) ;;
    -muse-mmap | -mno-use-mmap | -masync-io | -mno-async-io) ;;
    -marray-io | -mno-array-io) ;;
    -mstack-arrays | -mno-stack-arrays) ;;
    -minit-stack=zero) if accepts -ftrivial-auto-var-init=zero; then
      words=(-ftrivial-auto-var-init=zero)
    fi ;;
    -minit-stack=*) ;;

    # Automatic vectorisation and parallelisation.
    -mvector | -mvector-* | -mno-vector | -mno-vector-*) ;;
    -mparallel | -mparallel-* | -mno-parallel | -mno-parallel-*) ;;
    -mlist-vector | -mno-list-vector | -mretain-*) ;;
    -mconditional-index-test | -mno-conditional-index-test) ;;
    -mcreate-threads-at-startup | -mno-create-threads-at-startup) ;;
    -msched-* | -mno-sched-* | -mschedule-* | -mno-schedule-*) ;;
    -mwork-vector-kind=*) ;;
    -fopenmp-tools | -fno-openmp-tools) ;;

    # Loops. The system's compiler accepts some of these, but may be built without the passes.
    -floop-* | -fno-loop-* | -fouterloop-* | -fno-outerloop-*) ;;
    -fivdep* | -fno-ivdep* | -fnaked-ivdep | -fno-naked-ivdep) ;;
    -fmove-loop-invariants* | -fno-move-loop-invariants*) ;;
    -fmove-nested-loop-invariants* | -fno-move-nested-loop-invariants*) ;;
    -fmove-nested-loops-outer | -fno-move-nested-loops-outer) ;;
    -fmatrix-multiply | -fno-matrix-multiply | -freplace-* | -fno-replace-*) ;;
    -fcse-after-vectorization | -fno-cse-after-vectorization) ;;

    # Assertions about the code, which this compiler does not use.
    -fargument-alias | -fargument-noalias* | -marg-alias | -mno-arg-alias | -marg-noalias) ;;
    -fnamed-alias | -fnamed-noalias* | -fno-named-alias | -fno-named-noalias*) ;;
    -fassume-contiguous | -fno-assume-contiguous) ;;
    -fignore-* | -fno-ignore-*) ;;
    -fcopyin-intent-out | -fno-copyin-intent-out) ;;
    -ffast-formatted-io | -fno-fast-formatted-io) ;;

    # Arithmetic. gcc's -fassociative-math needs three more options, and warns without them.
    -fassociative-math | -faggressive-associative-math | -fno-aggressive-associative-math) ;;
    -fprecise-math | -fno-precise-math) ;;

    # Inlining. -finline and -finline-functions are the same here; limits have other units.
    -finline-max-* | -finline-file=* | -finline-directory=*) ;;
    -fno-inline-file=* | -fno-inline-directory=*) ;;
    -finline-abort-at-error | -finline-suppress-diagnostics) ;;
    -finline-copy-arguments | -fno-inline-copy-arguments) ;;
    -mgenerate-il-file* | -mread-il-file*) ;;
    -fdefer-inline-template-instantiation | -fno-defer-inline-template-instantiation) ;;

    # There is only one standard library of C++.
    -stdlib=*) ;;

    *) if [[ $veo_command == nfort ]]; then
      translate_fortran "$1"
    else
      words=("$1")
      [[ $1 != -fbounds-check ]] || words=()
    fi ;;
  esac
}

# Translates further options of nfort. gfortran accepts -fdefault-double-8 only with -fdefault-real-8.
translate_fortran() {
  local check kept=()
  case $1 in
    -fpp) words=(-cpp) ;;
    -nofpp | -no-fpp) words=(-nocpp) ;;
    -fpp-name=* | -bss | -fmax-continuation-lines=* | -fno-extend-source) ;;
    -cxxlib) words=(-lstdc++) ;;
    -module) words=(-J) ;;
    -save) words=(-fno-automatic) ;;
    -fextend-source) words=(-ffixed-line-length-132) ;;
    -fdefault-integer=4 | -fdefault-real=4 | -fdefault-double=16) ;;
    -fdefault-integer=8) words=(-fdefault-integer-8) ;;
    -fdefault-real=8) words=(-fdefault-real-8) ;;
    -fdefault-double=8) default_double=-fdefault-double-8 ;;
    -frealloc-lhs-array | -fno-realloc-lhs-array) ;;
    -frealloc-lhs-scalar | -fno-realloc-lhs-scalar) ;;
    -fcheck=*)
      for check in $(tr , ' ' <<<"${1#*=}"); do
        case $check in
          all | none | bits | bounds | do | pointer | recursion) kept+=("$check") ;;
        esac
      done
      [[ ${#kept[@]} -eq 0 ]] || words=("-fcheck=$(IFS=, && printf '%s' "${kept[*]}")")
      ;;
    *) words=("$1") ;;
  esac
}

# True if the compiler in `tool` accepts this option.
accepts() {
  "${tool[@]}" "$1" -E -x c /dev/null >/dev/null 2>&1
}
