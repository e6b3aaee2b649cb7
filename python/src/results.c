// SPDX-License-Identifier: Apache-2.0
#include "core.h"

// The type Results: an iterator over the elements of lists that another iterator gives. Each
// element is dropped from its list when it was read. An exception among the lists is raised.

typedef struct results {
  PyObject ob_base;
  PyObject* lists; ///< iterator over lists, or NULL after the end
  PyObject* list;  ///< list that is being read, or NULL
  Py_ssize_t next; ///< number of the next element
} results;

/// Results(lists)
static PyObject* results_new(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  (void)keywords;
  PyObject* lists = NULL;
  if (!PyArg_ParseTuple(arguments, "O", &lists)) return NULL;
  const allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  results* const self = (results*)allocate(type, 0);
  if (self == NULL) return NULL;
  Py_INCREF(lists);
  self->lists = lists;
  return (PyObject*)self;
}

static int results_traverse(PyObject* object, visitproc visit, void* arg) {
  results* const self = (results*)object;
  Py_VISIT((PyObject*)Py_TYPE(object));
  Py_VISIT(self->lists);
  Py_VISIT(self->list);
  return 0;
}

static int results_clear(PyObject* object) {
  results* const self = (results*)object;
  Py_CLEAR(self->lists);
  Py_CLEAR(self->list);
  return 0;
}

static void results_dealloc(PyObject* object) {
  PyObject_GC_UnTrack(object);
  results_clear(object);
  PyTypeObject* const type = Py_TYPE(object);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
  Py_DECREF((PyObject*)type);
}

/// Takes the next list. Returns 0 at the end, or if there is an exception.
static int next_list(results* self) {
  Py_CLEAR(self->list);
  if (self->lists == NULL) return 0;
  PyObject* const lists = self->lists;
  Py_INCREF(lists);
  PyObject* const list = PyIter_Next(lists);
  Py_DECREF(lists);
  if (list == NULL) Py_CLEAR(self->lists);
  if (list != NULL && PyExceptionInstance_Check(list)) {
    // Raised here, the exception has no frames of farcall.
    Py_CLEAR(self->lists);
    PyErr_SetObject((PyObject*)Py_TYPE(list), list);
    Py_DECREF(list);
    return 0;
  }
  if (list != NULL && !PyList_Check(list)) {
    Py_DECREF(list);
    PyErr_SetString(PyExc_TypeError, "Results needs an iterator over lists");
    return 0;
  }
  Py_XDECREF(self->list);
  self->list = list;
  self->next = 0;
  return list != NULL;
}

static PyObject* results_next(PyObject* object) {
  results* const self = (results*)object;
  while (self->list == NULL || self->next >= PyList_Size(self->list)) {
    if (next_list(self) == 0) return NULL;
  }
  PyObject* const element = PyList_GetItem(self->list, self->next);
  if (element == NULL) return NULL;
  Py_INCREF(element);
  Py_INCREF(Py_None);
  PyList_SetItem(self->list, self->next++, Py_None);
  return element;
}

/// close(): drops the results that were not read.
static PyObject* results_close(PyObject* object, PyObject* unused) {
  (void)unused;
  results* const self = (results*)object;
  PyObject* const lists = self->lists;
  self->lists = NULL;
  Py_CLEAR(self->list);
  if (lists == NULL) Py_RETURN_NONE;
  PyObject* const done = PyObject_CallMethod(lists, "close", NULL);
  Py_DECREF(lists);
  return done;
}

static PyMethodDef methods[] = {
    {"close", results_close, METH_NOARGS, "Drops the results that were not read."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Iterator over the results of map()."},
    {Py_tp_new, (void*)results_new},
    {Py_tp_traverse, (void*)results_traverse},
    {Py_tp_clear, (void*)results_clear},
    {Py_tp_dealloc, (void*)results_dealloc},
    {Py_tp_iter, (void*)PyObject_SelfIter},
    {Py_tp_iternext, (void*)results_next},
    {Py_tp_methods, methods},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "farcall._core.Results",
    .basicsize = sizeof(results),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};

int fcp_add_results_type(PyObject* module) {
  PyObject* const type = PyType_FromSpec(&spec);
  return type == NULL ? -1 : PyModule_AddObjectRef(module, "Results", type);
}
