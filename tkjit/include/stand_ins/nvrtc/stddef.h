#pragma once

typedef decltype(sizeof 0) size_t;
typedef long ptrdiff_t;
typedef decltype(nullptr) nullptr_t;
#ifndef NULL
#define NULL 0
#endif
#ifndef offsetof
#define offsetof(type, member) (static_cast<size_t>(__INTADDR__(&(static_cast<type*>(nullptr)->member))))
#endif
