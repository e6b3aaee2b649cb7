// SPDX-License-Identifier: Apache-2.0
#include "native.h"

#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

// Jobs with targets of every kind: their options, their nodes and their counters.

// ---- options ------------------------------------------------------------------------------------

enum kind { TEXT, NUMBER_32, NUMBER_64, SIGNED_64 };

/// Member of fc_job_options that has its name in the dict of options.
typedef struct member {
  const char* name;
  enum kind kind;
  size_t offset;
} member;

#define MEMBER(kind, name) {#name, kind, offsetof(fc_job_options, name)}
static const member members[] = {
    MEMBER(TEXT, targets),
    MEMBER(TEXT, program),
    MEMBER(TEXT, key),
    MEMBER(TEXT, certificate),
    MEMBER(TEXT, certificate_key),
    MEMBER(TEXT, authority),
    MEMBER(TEXT, server_key),
    MEMBER(TEXT, progress),
    MEMBER(TEXT, process_manager),
    MEMBER(TEXT, host_files),
    MEMBER(TEXT, trace),
    MEMBER(TEXT, crash_report),
    MEMBER(NUMBER_64, heap_bytes),
    MEMBER(NUMBER_32, lane_bytes),
    MEMBER(NUMBER_32, start_timeout_ms),
    MEMBER(NUMBER_32, stop_timeout_ms),
    MEMBER(NUMBER_32, heartbeat_timeout_ms),
    MEMBER(NUMBER_32, peer_timeout_ms),
    MEMBER(NUMBER_32, release_timeout_ms),
    MEMBER(NUMBER_32, restart_lost_servers),
    MEMBER(NUMBER_32, workers),
    MEMBER(NUMBER_32, label),
    MEMBER(NUMBER_32, survive),
    MEMBER(SIGNED_64, spin_us),
    MEMBER(SIGNED_64, yield_after_us),
};

static int set_member(fc_job_options* options, const member* m, PyObject* value) {
  void* const at = (char*)options + m->offset;
  if (m->kind == TEXT) {
    const char* const text = PyUnicode_AsUTF8AndSize(value, NULL);
    *(const char**)at = text;
    return text == NULL ? -1 : 0;
  }
  if (m->kind == SIGNED_64) {
    *(int64_t*)at = PyLong_AsLongLong(value);
  } else if (m->kind == NUMBER_64) {
    *(uint64_t*)at = PyLong_AsUnsignedLongLong(value);
  } else {
    const unsigned long number = PyLong_AsUnsignedLong(value);
    if (!PyErr_Occurred() && number > UINT32_MAX)
      PyErr_Format(PyExc_OverflowError, "%s is too large", m->name);
    *(uint32_t*)at = (uint32_t)number;
  }
  return PyErr_Occurred() ? -1 : 0;
}

/// Sets the arguments of targets from a tuple of texts. The caller frees them.
static int set_arguments(fc_job_options* options, PyObject* arguments) {
  const Py_ssize_t count = PyTuple_Size(arguments);
  if (count < 0) return -1;
  const char** const made = calloc((size_t)count + 1, sizeof *made);
  if (made == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  options->arguments = made;
  for (Py_ssize_t i = 0; i < count; ++i) {
    made[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(arguments, i), NULL);
    if (made[i] == NULL) return -1;
  }
  return 0;
}

/// Fills the options from a dict, whose texts must stay as long as the options are used.
static int fill(fc_job_options* options, PyObject* dict) {
  for (size_t i = 0; i < sizeof members / sizeof *members; ++i) {
    PyObject* const value = PyDict_GetItemString(dict, members[i].name);
    if (value != NULL && set_member(options, &members[i], value) != 0) return -1;
  }
  PyObject* const arguments = PyDict_GetItemString(dict, "arguments");
  return arguments == NULL ? 0 : set_arguments(options, arguments);
}

PyObject* fcp_start_job_with(PyObject* module, PyObject* arguments) {
  (void)module;
  PyObject* dict = NULL;
  PyObject* events = NULL;
  int is_spmd = 0;
  int has_output = 0;
  if (!PyArg_ParseTuple(arguments, "O!pOp", &PyDict_Type, &dict, &is_spmd, &events, &has_output))
    return NULL;
  if (!fcp_is_events(events)) {
    PyErr_SetString(PyExc_TypeError, "start_job() takes Events");
    return NULL;
  }
  fc_job_options options = {.size = sizeof options};
  PyObject* made = NULL;
  if (fill(&options, dict) == 0) {
    if (has_output) fcp_send_lines_to(&options, events);
    made = fcp_start_job(&options, is_spmd != 0, events);
  }
  free((void*)options.arguments);
  if (made == NULL || is_spmd) return made;
  const fc_status status = fcp_send_changes_to(((fcp_job*)made)->job, events);
  if (status == FC_OK) return made;
  fcp_raise(status);
  Py_DECREF(made);
  return NULL;
}

// ---- nodes --------------------------------------------------------------------------------------

fcp_job* fcp_job_in(PyObject* object) {
  if (!fcp_is_job(object)) {
    PyErr_SetString(PyExc_TypeError, "this is no job");
    return NULL;
  }
  fcp_job* const job = (fcp_job*)object;
  return fcp_has_ended(job) ? NULL : job;
}

/// Reads the arguments (job, id) of a function.
static int node_in(PyObject* arguments, fc_node* node) {
  PyObject* object = NULL;
  unsigned id = 0;
  if (!PyArg_ParseTuple(arguments, "OI", &object, &id)) return -1;
  return fcp_node_at(object, id, node);
}

PyObject* fcp_add_node(PyObject* module, PyObject* arguments) {
  (void)module;
  PyObject* object = NULL;
  const char* url = NULL;
  if (!PyArg_ParseTuple(arguments, "Os", &object, &url)) return NULL;
  fcp_job* const job = fcp_job_in(object);
  if (job == NULL) return NULL;
  fc_job* const handle = job->job;
  fc_node node;
  fc_status status;
  FCP_BEGIN_USE(job)
  status = fc_node_add(handle, url, &node);
  FCP_END_USE
  return status == FC_OK ? PyLong_FromUnsignedLong(node.id) : fcp_raise(status);
}

PyObject* fcp_restart_node(PyObject* module, PyObject* arguments) {
  (void)module;
  fc_node node;
  fc_node started;
  if (node_in(arguments, &node) != 0) return NULL;
  fc_status status;
  FCP_BEGIN_USE((fcp_job*)PyTuple_GetItem(arguments, 0))
  status = fc_node_restart(node, &started);
  FCP_END_USE
  return status == FC_OK ? PyLong_FromUnsignedLong(started.id) : fcp_raise(status);
}

PyObject* fcp_describe_node(PyObject* module, PyObject* arguments) {
  (void)module;
  fc_node node;
  if (node_in(arguments, &node) != 0) return NULL;
  fc_node_description* d = NULL;
  fc_status status;
  FCP_BEGIN_USE((fcp_job*)PyTuple_GetItem(arguments, 0))
  status = fc_node_describe(node, &d);
  FCP_END_USE
  if (status != FC_OK) return fcp_raise(status);
  PyObject* const made = Py_BuildValue(
      "{s:s,s:s,s:s,s:s,s:s,s:K,s:I,s:I}", "name", d->name, "host", d->host, "architecture",
      d->architecture, "transport", d->transport, "route", d->route, "pid",
      (unsigned long long)d->pid, "cores", (unsigned)d->cores, "workers", (unsigned)d->workers);
  fc_free(d);
  return made;
}

PyObject* fcp_is_alive(PyObject* module, PyObject* arguments) {
  (void)module;
  fc_node node;
  return node_in(arguments, &node) == 0 ? PyBool_FromLong(fc_node_alive(node)) : NULL;
}

PyObject* fcp_job_size(PyObject* module, PyObject* object) {
  (void)module;
  const fcp_job* const job = fcp_job_in(object);
  return job == NULL ? NULL : PyLong_FromUnsignedLong(fc_job_size(job->job));
}

PyObject* fcp_latest_node(PyObject* module, PyObject* arguments) {
  (void)module;
  PyObject* object = NULL;
  unsigned place = 0;
  if (!PyArg_ParseTuple(arguments, "OI", &object, &place)) return NULL;
  const fcp_job* const job = fcp_job_in(object);
  if (job == NULL) return NULL;
  fc_node node;
  const fc_status status = fc_latest_node(job->job, place, &node);
  return status == FC_OK ? PyLong_FromUnsignedLong(node.id) : fcp_raise(status);
}

PyObject* fcp_counters(PyObject* module, PyObject* object) {
  (void)module;
  const fcp_job* const job = fcp_job_in(object);
  if (job == NULL) return NULL;
  fc_counter_values c = {.size = sizeof c};
  const fc_status status = fc_counters(job->job, &c);
  if (status != FC_OK) return fcp_raise(status);
  const struct {
    const char* name;
    uint64_t value;
  } all[] = {
      {"calls", c.calls},
      {"posts", c.posts},
      {"replies", c.replies},
      {"failures", c.failures},
      {"served", c.served},
      {"bytes_sent", c.bytes_sent},
      {"bytes_received", c.bytes_received},
      {"full", c.full},
      {"sleeps", c.sleeps},
      {"puts", c.puts},
      {"gets", c.gets},
      {"copies", c.copies},
      {"bytes_put", c.bytes_put},
      {"bytes_got", c.bytes_got},
      {"bytes_copied", c.bytes_copied},
  };
  PyObject* const dict = PyDict_New();
  for (size_t i = 0; dict != NULL && i < sizeof all / sizeof *all; ++i) {
    PyObject* const value = PyLong_FromUnsignedLongLong(all[i].value);
    const int done = value == NULL ? -1 : PyDict_SetItemString(dict, all[i].name, value);
    Py_XDECREF(value);
    if (done != 0) {
      Py_DECREF(dict);
      return NULL;
    }
  }
  return dict;
}
