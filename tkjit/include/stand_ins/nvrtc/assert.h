// NVRTC declares __assertfail, but not the macro.
#undef assert
#ifdef NDEBUG
#define assert(condition) (static_cast<void>(0))
#else
#define assert(...)                                                                                              \
    ((__VA_ARGS__) ? static_cast<void>(0)                                                                        \
                   : __assertfail(#__VA_ARGS__, __FILE__, __LINE__, static_cast<const char*>(__func__), sizeof(char)))
#endif
