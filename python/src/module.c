// SPDX-License-Identifier: Apache-2.0
#include "native.h"

// The module farcall._core.

static PyMethodDef methods[] = {
    {"set_pickling", fcp_set_pickling, METH_VARARGS, NULL},
    {"set_errors", fcp_set_errors, METH_VARARGS, NULL},
    {"serve_open", fcp_serve_open, METH_VARARGS, NULL},
    {"serve", fcp_serve, METH_VARARGS, NULL},
    {"begin_calls", fcp_begin_calls, METH_NOARGS, NULL},
    {"begin_wait", fcp_begin_wait, METH_NOARGS, NULL},
    {"end_calls", fcp_end_calls, METH_NOARGS, NULL},
    {"end_wait", fcp_end_wait, METH_NOARGS, NULL},
    {"actor_add", fcp_actor_add, METH_VARARGS, NULL},
    {"actor_ask", fcp_actor_ask, METH_VARARGS, NULL},
    {"actor_forget", fcp_actor_forget, METH_O, NULL},
    {"set_local", fcp_set_local, METH_VARARGS, NULL},
    {"undefine", fcp_undefine, METH_O, NULL},
    {"set_future_type", fcp_set_future_type, METH_O, NULL},
    {"run_here", fcp_run_here, METH_VARARGS, NULL},
    {"set_stop", fcp_set_stop, METH_O, NULL},
    {"on_stop", fcp_on_stop, METH_VARARGS, NULL},
    {"hold_stops", fcp_hold_stops, METH_NOARGS, NULL},
    {"allow_stops", fcp_allow_stops, METH_NOARGS, NULL},
    {"on_unraisable", fcp_on_unraisable, METH_O, NULL},
    {"zero_copy", fcp_zero_copy, METH_O, NULL},
    {"set_sharing", fcp_set_sharing, METH_O, NULL},
    {"die_with_parent", fcp_die_with_parent, METH_NOARGS, NULL},
    {"start_job", fcp_start_job_with, METH_VARARGS, NULL},
    {"add_node", fcp_add_node, METH_VARARGS, NULL},
    {"restart_node", fcp_restart_node, METH_VARARGS, NULL},
    {"describe_node", fcp_describe_node, METH_VARARGS, NULL},
    {"is_alive", fcp_is_alive, METH_VARARGS, NULL},
    {"job_size", fcp_job_size, METH_O, NULL},
    {"latest_node", fcp_latest_node, METH_VARARGS, NULL},
    {"counters", fcp_counters, METH_O, NULL},
    {"load_library", fcp_load_library, METH_VARARGS, NULL},
    {"unload_library", fcp_unload_library, METH_VARARGS, NULL},
    {"last_errno", fcp_last_errno, METH_NOARGS, NULL},
    {"allocate", fcp_allocate_on, METH_VARARGS, NULL},
    {"release_memory", fcp_release_memory, METH_VARARGS, NULL},
    {"put", fcp_put, METH_VARARGS, NULL},
    {"get", fcp_get, METH_VARARGS, NULL},
    {"copy", fcp_copy, METH_VARARGS, NULL},
    {"take_part", fcp_take_part, METH_O, NULL},
    {"barrier", fcp_barrier, METH_VARARGS, NULL},
    {"all_gather", fcp_all_gather, METH_VARARGS, NULL},
    {"broadcast", fcp_broadcast, METH_VARARGS, NULL},
    {"combine", fcp_combine, METH_VARARGS, NULL},
    {"close_job", fcp_close_job, METH_O, NULL},
    {"abandon_job", fcp_abandon_job, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static int execute(PyObject* module) {
  // Types and functions of farcall exist once in a process, so another interpreter must not replace
  // them.
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
    PyErr_SetString(PyExc_ImportError, "farcall cannot be used in a subinterpreter");
    return -1;
  }
  if (PyModule_AddStringConstant(module, "version", fc_version()) != 0 ||
      fcp_add_job_type(module) != 0 || fcp_add_function_types(module) != 0 ||
      fcp_add_future_type(module) != 0 || fcp_add_express_type(module) != 0 ||
      fcp_add_results_type(module) != 0 || fcp_add_actor_types(module) != 0 ||
      fcp_add_memory_types(module) != 0 || fcp_add_view_type(module) != 0 ||
      fcp_add_events_type(module) != 0 || fcp_add_native_types(module) != 0 ||
      fcp_register_actors() != 0) {
    return -1;
  }
  return fcp_register_definitions() != 0 ? -1 : fcp_register_blocks();
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void*)execute},
    {0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "farcall._core",
    .m_doc = "Part of farcall that is written in C.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&definition); }
