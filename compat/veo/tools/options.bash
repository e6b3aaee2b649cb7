# What becomes of an option of NEC's compilers. Most that the system's compilers do not know are
# about vectors, lists of messages, or the card, and are left out; some have another name here. What
# is not in this file goes to the compiler as it is, which refuses what it does not know.

# translate <option>: puts what to pass on into the array `words`; nothing is an empty array. Sets
# ftrace, and for nfort default_real.
translate() {
  words=()
  case $1 in
    # Optimisation: there is no level 4.
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
    # The warnings are not those that the program was cleaned of; -Werror=name stays.
    -Werror) ;;
    -Wunknown-pragma) words=(-Wunknown-pragmas) ;;
    -Wno-unknown-pragma) words=(-Wno-unknown-pragmas) ;;
    -traceback | -traceback=* | -no-traceback) ;;

    # The target.
    -march=ve* | -mtune=ve* | -mabi=* | -mfp16-format=*) ;;
    -static-nec | -shared-nec) ;;
    -muse-mmap | -mno-use-mmap | -masync-io | -mno-async-io) ;;
    -marray-io | -mno-array-io) ;;
    -mstack-arrays | -mno-stack-arrays) ;;
    -minit-stack=zero) if accepts -ftrivial-auto-var-init=zero; then
      words=(-ftrivial-auto-var-init=zero)
    fi ;;
    -minit-stack=*) ;;

    # Vectors and threads made by the compiler.
    -mvector | -mvector-* | -mno-vector | -mno-vector-*) ;;
    -mparallel | -mparallel-* | -mno-parallel | -mno-parallel-*) ;;
    -mlist-vector | -mno-list-vector | -mretain-*) ;;
    -mconditional-index-test | -mno-conditional-index-test) ;;
    -mcreate-threads-at-startup | -mno-create-threads-at-startup) ;;
    -msched-* | -mno-sched-* | -mschedule-* | -mno-schedule-*) ;;
    -mwork-vector-kind=*) ;;
    -fopenmp-tools | -fno-openmp-tools) ;;

    # Loops. The system's compiler knows some of these, but may be built without what does them.
    -floop-* | -fno-loop-* | -fouterloop-* | -fno-outerloop-*) ;;
    -fivdep* | -fno-ivdep* | -fnaked-ivdep | -fno-naked-ivdep) ;;
    -fmove-loop-invariants* | -fno-move-loop-invariants*) ;;
    -fmove-nested-loop-invariants* | -fno-move-nested-loop-invariants*) ;;
    -fmove-nested-loops-outer | -fno-move-nested-loops-outer) ;;
    -fmatrix-multiply | -fno-matrix-multiply | -freplace-* | -fno-replace-*) ;;
    -fcse-after-vectorization | -fno-cse-after-vectorization) ;;

    # Promises about the code that nothing here makes use of.
    -fargument-alias | -fargument-noalias* | -marg-alias | -mno-arg-alias | -marg-noalias) ;;
    -fnamed-alias | -fnamed-noalias* | -fno-named-alias | -fno-named-noalias*) ;;
    -fassume-contiguous | -fno-assume-contiguous) ;;
    -fignore-* | -fno-ignore-*) ;;
    -fcopyin-intent-out | -fno-copyin-intent-out) ;;
    -ffast-formatted-io | -fno-fast-formatted-io) ;;

    # Arithmetic. gcc's -fassociative-math wants three more options, and warns without them.
    -fassociative-math | -faggressive-associative-math | -fno-aggressive-associative-math) ;;
    -fprecise-math | -fno-precise-math) ;;

    # Inlining: -finline and -finline-functions mean the same here; the limits have other units.
    -finline-max-* | -finline-file=* | -finline-directory=*) ;;
    -fno-inline-file=* | -fno-inline-directory=*) ;;
    -finline-abort-at-error | -finline-suppress-diagnostics) ;;
    -finline-copy-arguments | -fno-inline-copy-arguments) ;;
    -mgenerate-il-file* | -mread-il-file*) ;;
    -fdefer-inline-template-instantiation | -fno-defer-inline-template-instantiation) ;;

    # There is one library for C++.
    -stdlib=*) ;;

    *) if [[ $veo_command == nfort ]]; then
      translate_fortran "$1"
    else
      words=("$1")
      [[ $1 != -fbounds-check ]] || words=()
    fi ;;
  esac
}

# The rest for nfort. gfortran takes -fdefault-double-8 only beside -fdefault-real-8.
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

# Whether the compiler in `tool` takes this option.
accepts() {
  "${tool[@]}" "$1" -E -x c /dev/null >/dev/null 2>&1
}
