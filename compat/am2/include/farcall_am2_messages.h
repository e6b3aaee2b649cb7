/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FARCALL_AM2_MESSAGES_H
#define FARCALL_AM2_MESSAGES_H

/* The functions of Active Messages 2.0 that send messages. They are macros, with a separate macro
   for each number of arguments from 0 to 16. Each argument is converted to int32_t.

   AM_Request sends a message to the endpoint at index `to` of the translation table. AM_Reply sends
   a message to the sender of the request. With "I" in the name (Medium), the message has a payload,
   which the handler gets in a buffer. With "Xfer" (Long), the payload is copied to `offset` in the
   receiver's segment. AM_GetXfer requests a copy from offset `from` in the other endpoint's segment
   to `offset` in this endpoint's segment. After the copy, the handler runs in this process, as for
   a reply. Functions with "Async" return AM_ERR_IN_USE if the call would have to wait. */

/* clang-format off */

#define AM2_ARGS1(a0) , (int32_t)(a0)
#define AM2_ARGS2(a0, a1) , (int32_t)(a0), (int32_t)(a1)
#define AM2_ARGS3(a0, a1, a2) , (int32_t)(a0), (int32_t)(a1), (int32_t)(a2)
#define AM2_ARGS4(a0, a1, a2, a3) , (int32_t)(a0), (int32_t)(a1), (int32_t)(a2), (int32_t)(a3)
#define AM2_ARGS5(a0, a1, a2, a3, a4)                                                              \
  , (int32_t)(a0), (int32_t)(a1), (int32_t)(a2), (int32_t)(a3), (int32_t)(a4)
#define AM2_ARGS6(a0, a1, a2, a3, a4, a5)                                                          \
  , (int32_t)(a0), (int32_t)(a1), (int32_t)(a2), (int32_t)(a3), (int32_t)(a4), (int32_t)(a5)
#define AM2_ARGS7(a0, a1, a2, a3, a4, a5, a6)                                                      \
  , (int32_t)(a0), (int32_t)(a1), (int32_t)(a2), (int32_t)(a3), (int32_t)(a4), (int32_t)(a5),      \
  (int32_t)(a6)
#define AM2_ARGS8(a0, a1, a2, a3, a4, a5, a6, a7)                                                  \
  , (int32_t)(a0), (int32_t)(a1), (int32_t)(a2), (int32_t)(a3), (int32_t)(a4), (int32_t)(a5),      \
  (int32_t)(a6), (int32_t)(a7)
#define AM2_ARGS9(a0, a1, a2, a3, a4, a5, a6, a7, a8)                                              \
  , (int32_t)(a0), (int32_t)(a1), (int32_t)(a2), (int32_t)(a3), (int32_t)(a4), (int32_t)(a5),      \
  (int32_t)(a6), (int32_t)(a7), (int32_t)(a8)
#define AM2_ARGS10(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9)                                         \
  , (int32_t)(a0), (int32_t)(a1), (int32_t)(a2), (int32_t)(a3), (int32_t)(a4), (int32_t)(a5),      \
  (int32_t)(a6), (int32_t)(a7), (int32_t)(a8), (int32_t)(a9)
#define AM2_ARGS11(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10)                                    \
  , (int32_t)(a0), (int32_t)(a1), (int32_t)(a2), (int32_t)(a3), (int32_t)(a4), (int32_t)(a5),      \
  (int32_t)(a6), (int32_t)(a7), (int32_t)(a8), (int32_t)(a9), (int32_t)(a10)
#define AM2_ARGS12(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11)                               \
  , (int32_t)(a0), (int32_t)(a1), (int32_t)(a2), (int32_t)(a3), (int32_t)(a4), (int32_t)(a5),      \
  (int32_t)(a6), (int32_t)(a7), (int32_t)(a8), (int32_t)(a9), (int32_t)(a10), (int32_t)(a11)
#define AM2_ARGS13(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12)                          \
  , (int32_t)(a0), (int32_t)(a1), (int32_t)(a2), (int32_t)(a3), (int32_t)(a4), (int32_t)(a5),      \
  (int32_t)(a6), (int32_t)(a7), (int32_t)(a8), (int32_t)(a9), (int32_t)(a10), (int32_t)(a11),      \
  (int32_t)(a12)
#define AM2_ARGS14(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13)                     \
  , (int32_t)(a0), (int32_t)(a1), (int32_t)(a2), (int32_t)(a3), (int32_t)(a4), (int32_t)(a5),      \
  (int32_t)(a6), (int32_t)(a7), (int32_t)(a8), (int32_t)(a9), (int32_t)(a10), (int32_t)(a11),      \
  (int32_t)(a12), (int32_t)(a13)
#define AM2_ARGS15(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14)                \
  , (int32_t)(a0), (int32_t)(a1), (int32_t)(a2), (int32_t)(a3), (int32_t)(a4), (int32_t)(a5),      \
  (int32_t)(a6), (int32_t)(a7), (int32_t)(a8), (int32_t)(a9), (int32_t)(a10), (int32_t)(a11),      \
  (int32_t)(a12), (int32_t)(a13), (int32_t)(a14)
#define AM2_ARGS16(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15)           \
  , (int32_t)(a0), (int32_t)(a1), (int32_t)(a2), (int32_t)(a3), (int32_t)(a4), (int32_t)(a5),      \
  (int32_t)(a6), (int32_t)(a7), (int32_t)(a8), (int32_t)(a9), (int32_t)(a10), (int32_t)(a11),      \
  (int32_t)(a12), (int32_t)(a13), (int32_t)(a14), (int32_t)(a15)

#define AM2_Request(ep, to, h, ...) AMX_Request((ep), (int)(to), (handler_t)(h), __VA_ARGS__)
#define AM2_RequestI(ep, to, h, src, n, ...)                                                       \
  AMX_RequestI((ep), (int)(to), (handler_t)(h), (void*)(src), (size_t)(n), __VA_ARGS__)
#define AM2_RequestXfer(ep, to, offset, h, src, n, ...)                                            \
  AMX_RequestXfer((ep), (int)(to), (handler_t)(h), (void*)(src), (size_t)(n),                      \
  (uintptr_t)(offset), 0, __VA_ARGS__)
#define AM2_RequestXferAsync(ep, to, offset, h, src, n, ...)                                       \
  AMX_RequestXfer((ep), (int)(to), (handler_t)(h), (void*)(src), (size_t)(n),                      \
  (uintptr_t)(offset), 1, __VA_ARGS__)
#define AM2_Reply(token, h, ...) AMX_Reply((token), (handler_t)(h), __VA_ARGS__)
#define AM2_ReplyI(token, h, src, n, ...)                                                          \
  AMX_ReplyI((token), (handler_t)(h), (void*)(src), (size_t)(n), __VA_ARGS__)
#define AM2_ReplyXfer(token, offset, h, src, n, ...)                                               \
  AMX_ReplyXfer((token), (handler_t)(h), (void*)(src), (size_t)(n), (uintptr_t)(offset),           \
  __VA_ARGS__)
#define AM2_GetXfer(ep, to, from, h, offset, n, ...)                                               \
  AMX_GetXfer((ep), (int)(to), (uintptr_t)(from), (handler_t)(h), (uintptr_t)(offset),             \
  (size_t)(n), 0, __VA_ARGS__)
#define AM2_GetXferAsync(ep, to, from, h, offset, n, ...)                                          \
  AMX_GetXfer((ep), (int)(to), (uintptr_t)(from), (handler_t)(h), (uintptr_t)(offset),             \
  (size_t)(n), 1, __VA_ARGS__)

#define AM_Request0(ep, to, h) AM2_Request(ep, to, h, 0)
#define AM_Request1(ep, to, h, ...) AM2_Request(ep, to, h, 1 AM2_ARGS1(__VA_ARGS__))
#define AM_Request2(ep, to, h, ...) AM2_Request(ep, to, h, 2 AM2_ARGS2(__VA_ARGS__))
#define AM_Request3(ep, to, h, ...) AM2_Request(ep, to, h, 3 AM2_ARGS3(__VA_ARGS__))
#define AM_Request4(ep, to, h, ...) AM2_Request(ep, to, h, 4 AM2_ARGS4(__VA_ARGS__))
#define AM_Request5(ep, to, h, ...) AM2_Request(ep, to, h, 5 AM2_ARGS5(__VA_ARGS__))
#define AM_Request6(ep, to, h, ...) AM2_Request(ep, to, h, 6 AM2_ARGS6(__VA_ARGS__))
#define AM_Request7(ep, to, h, ...) AM2_Request(ep, to, h, 7 AM2_ARGS7(__VA_ARGS__))
#define AM_Request8(ep, to, h, ...) AM2_Request(ep, to, h, 8 AM2_ARGS8(__VA_ARGS__))
#define AM_Request9(ep, to, h, ...) AM2_Request(ep, to, h, 9 AM2_ARGS9(__VA_ARGS__))
#define AM_Request10(ep, to, h, ...) AM2_Request(ep, to, h, 10 AM2_ARGS10(__VA_ARGS__))
#define AM_Request11(ep, to, h, ...) AM2_Request(ep, to, h, 11 AM2_ARGS11(__VA_ARGS__))
#define AM_Request12(ep, to, h, ...) AM2_Request(ep, to, h, 12 AM2_ARGS12(__VA_ARGS__))
#define AM_Request13(ep, to, h, ...) AM2_Request(ep, to, h, 13 AM2_ARGS13(__VA_ARGS__))
#define AM_Request14(ep, to, h, ...) AM2_Request(ep, to, h, 14 AM2_ARGS14(__VA_ARGS__))
#define AM_Request15(ep, to, h, ...) AM2_Request(ep, to, h, 15 AM2_ARGS15(__VA_ARGS__))
#define AM_Request16(ep, to, h, ...) AM2_Request(ep, to, h, 16 AM2_ARGS16(__VA_ARGS__))

#define AM_RequestI0(ep, to, h, src, n) AM2_RequestI(ep, to, h, src, n, 0)
#define AM_RequestI1(ep, to, h, src, n, ...)                                                       \
  AM2_RequestI(ep, to, h, src, n, 1 AM2_ARGS1(__VA_ARGS__))
#define AM_RequestI2(ep, to, h, src, n, ...)                                                       \
  AM2_RequestI(ep, to, h, src, n, 2 AM2_ARGS2(__VA_ARGS__))
#define AM_RequestI3(ep, to, h, src, n, ...)                                                       \
  AM2_RequestI(ep, to, h, src, n, 3 AM2_ARGS3(__VA_ARGS__))
#define AM_RequestI4(ep, to, h, src, n, ...)                                                       \
  AM2_RequestI(ep, to, h, src, n, 4 AM2_ARGS4(__VA_ARGS__))
#define AM_RequestI5(ep, to, h, src, n, ...)                                                       \
  AM2_RequestI(ep, to, h, src, n, 5 AM2_ARGS5(__VA_ARGS__))
#define AM_RequestI6(ep, to, h, src, n, ...)                                                       \
  AM2_RequestI(ep, to, h, src, n, 6 AM2_ARGS6(__VA_ARGS__))
#define AM_RequestI7(ep, to, h, src, n, ...)                                                       \
  AM2_RequestI(ep, to, h, src, n, 7 AM2_ARGS7(__VA_ARGS__))
#define AM_RequestI8(ep, to, h, src, n, ...)                                                       \
  AM2_RequestI(ep, to, h, src, n, 8 AM2_ARGS8(__VA_ARGS__))
#define AM_RequestI9(ep, to, h, src, n, ...)                                                       \
  AM2_RequestI(ep, to, h, src, n, 9 AM2_ARGS9(__VA_ARGS__))
#define AM_RequestI10(ep, to, h, src, n, ...)                                                      \
  AM2_RequestI(ep, to, h, src, n, 10 AM2_ARGS10(__VA_ARGS__))
#define AM_RequestI11(ep, to, h, src, n, ...)                                                      \
  AM2_RequestI(ep, to, h, src, n, 11 AM2_ARGS11(__VA_ARGS__))
#define AM_RequestI12(ep, to, h, src, n, ...)                                                      \
  AM2_RequestI(ep, to, h, src, n, 12 AM2_ARGS12(__VA_ARGS__))
#define AM_RequestI13(ep, to, h, src, n, ...)                                                      \
  AM2_RequestI(ep, to, h, src, n, 13 AM2_ARGS13(__VA_ARGS__))
#define AM_RequestI14(ep, to, h, src, n, ...)                                                      \
  AM2_RequestI(ep, to, h, src, n, 14 AM2_ARGS14(__VA_ARGS__))
#define AM_RequestI15(ep, to, h, src, n, ...)                                                      \
  AM2_RequestI(ep, to, h, src, n, 15 AM2_ARGS15(__VA_ARGS__))
#define AM_RequestI16(ep, to, h, src, n, ...)                                                      \
  AM2_RequestI(ep, to, h, src, n, 16 AM2_ARGS16(__VA_ARGS__))

#define AM_RequestXfer0(ep, to, offset, h, src, n) AM2_RequestXfer(ep, to, offset, h, src, n, 0)
#define AM_RequestXfer1(ep, to, offset, h, src, n, ...)                                            \
  AM2_RequestXfer(ep, to, offset, h, src, n, 1 AM2_ARGS1(__VA_ARGS__))
#define AM_RequestXfer2(ep, to, offset, h, src, n, ...)                                            \
  AM2_RequestXfer(ep, to, offset, h, src, n, 2 AM2_ARGS2(__VA_ARGS__))
#define AM_RequestXfer3(ep, to, offset, h, src, n, ...)                                            \
  AM2_RequestXfer(ep, to, offset, h, src, n, 3 AM2_ARGS3(__VA_ARGS__))
#define AM_RequestXfer4(ep, to, offset, h, src, n, ...)                                            \
  AM2_RequestXfer(ep, to, offset, h, src, n, 4 AM2_ARGS4(__VA_ARGS__))
#define AM_RequestXfer5(ep, to, offset, h, src, n, ...)                                            \
  AM2_RequestXfer(ep, to, offset, h, src, n, 5 AM2_ARGS5(__VA_ARGS__))
#define AM_RequestXfer6(ep, to, offset, h, src, n, ...)                                            \
  AM2_RequestXfer(ep, to, offset, h, src, n, 6 AM2_ARGS6(__VA_ARGS__))
#define AM_RequestXfer7(ep, to, offset, h, src, n, ...)                                            \
  AM2_RequestXfer(ep, to, offset, h, src, n, 7 AM2_ARGS7(__VA_ARGS__))
#define AM_RequestXfer8(ep, to, offset, h, src, n, ...)                                            \
  AM2_RequestXfer(ep, to, offset, h, src, n, 8 AM2_ARGS8(__VA_ARGS__))
#define AM_RequestXfer9(ep, to, offset, h, src, n, ...)                                            \
  AM2_RequestXfer(ep, to, offset, h, src, n, 9 AM2_ARGS9(__VA_ARGS__))
#define AM_RequestXfer10(ep, to, offset, h, src, n, ...)                                           \
  AM2_RequestXfer(ep, to, offset, h, src, n, 10 AM2_ARGS10(__VA_ARGS__))
#define AM_RequestXfer11(ep, to, offset, h, src, n, ...)                                           \
  AM2_RequestXfer(ep, to, offset, h, src, n, 11 AM2_ARGS11(__VA_ARGS__))
#define AM_RequestXfer12(ep, to, offset, h, src, n, ...)                                           \
  AM2_RequestXfer(ep, to, offset, h, src, n, 12 AM2_ARGS12(__VA_ARGS__))
#define AM_RequestXfer13(ep, to, offset, h, src, n, ...)                                           \
  AM2_RequestXfer(ep, to, offset, h, src, n, 13 AM2_ARGS13(__VA_ARGS__))
#define AM_RequestXfer14(ep, to, offset, h, src, n, ...)                                           \
  AM2_RequestXfer(ep, to, offset, h, src, n, 14 AM2_ARGS14(__VA_ARGS__))
#define AM_RequestXfer15(ep, to, offset, h, src, n, ...)                                           \
  AM2_RequestXfer(ep, to, offset, h, src, n, 15 AM2_ARGS15(__VA_ARGS__))
#define AM_RequestXfer16(ep, to, offset, h, src, n, ...)                                           \
  AM2_RequestXfer(ep, to, offset, h, src, n, 16 AM2_ARGS16(__VA_ARGS__))

#define AM_RequestXferAsync0(ep, to, offset, h, src, n)                                            \
  AM2_RequestXferAsync(ep, to, offset, h, src, n, 0)
#define AM_RequestXferAsync1(ep, to, offset, h, src, n, ...)                                       \
  AM2_RequestXferAsync(ep, to, offset, h, src, n, 1 AM2_ARGS1(__VA_ARGS__))
#define AM_RequestXferAsync2(ep, to, offset, h, src, n, ...)                                       \
  AM2_RequestXferAsync(ep, to, offset, h, src, n, 2 AM2_ARGS2(__VA_ARGS__))
#define AM_RequestXferAsync3(ep, to, offset, h, src, n, ...)                                       \
  AM2_RequestXferAsync(ep, to, offset, h, src, n, 3 AM2_ARGS3(__VA_ARGS__))
#define AM_RequestXferAsync4(ep, to, offset, h, src, n, ...)                                       \
  AM2_RequestXferAsync(ep, to, offset, h, src, n, 4 AM2_ARGS4(__VA_ARGS__))
#define AM_RequestXferAsync5(ep, to, offset, h, src, n, ...)                                       \
  AM2_RequestXferAsync(ep, to, offset, h, src, n, 5 AM2_ARGS5(__VA_ARGS__))
#define AM_RequestXferAsync6(ep, to, offset, h, src, n, ...)                                       \
  AM2_RequestXferAsync(ep, to, offset, h, src, n, 6 AM2_ARGS6(__VA_ARGS__))
#define AM_RequestXferAsync7(ep, to, offset, h, src, n, ...)                                       \
  AM2_RequestXferAsync(ep, to, offset, h, src, n, 7 AM2_ARGS7(__VA_ARGS__))
#define AM_RequestXferAsync8(ep, to, offset, h, src, n, ...)                                       \
  AM2_RequestXferAsync(ep, to, offset, h, src, n, 8 AM2_ARGS8(__VA_ARGS__))
#define AM_RequestXferAsync9(ep, to, offset, h, src, n, ...)                                       \
  AM2_RequestXferAsync(ep, to, offset, h, src, n, 9 AM2_ARGS9(__VA_ARGS__))
#define AM_RequestXferAsync10(ep, to, offset, h, src, n, ...)                                      \
  AM2_RequestXferAsync(ep, to, offset, h, src, n, 10 AM2_ARGS10(__VA_ARGS__))
#define AM_RequestXferAsync11(ep, to, offset, h, src, n, ...)                                      \
  AM2_RequestXferAsync(ep, to, offset, h, src, n, 11 AM2_ARGS11(__VA_ARGS__))
#define AM_RequestXferAsync12(ep, to, offset, h, src, n, ...)                                      \
  AM2_RequestXferAsync(ep, to, offset, h, src, n, 12 AM2_ARGS12(__VA_ARGS__))
#define AM_RequestXferAsync13(ep, to, offset, h, src, n, ...)                                      \
  AM2_RequestXferAsync(ep, to, offset, h, src, n, 13 AM2_ARGS13(__VA_ARGS__))
#define AM_RequestXferAsync14(ep, to, offset, h, src, n, ...)                                      \
  AM2_RequestXferAsync(ep, to, offset, h, src, n, 14 AM2_ARGS14(__VA_ARGS__))
#define AM_RequestXferAsync15(ep, to, offset, h, src, n, ...)                                      \
  AM2_RequestXferAsync(ep, to, offset, h, src, n, 15 AM2_ARGS15(__VA_ARGS__))
#define AM_RequestXferAsync16(ep, to, offset, h, src, n, ...)                                      \
  AM2_RequestXferAsync(ep, to, offset, h, src, n, 16 AM2_ARGS16(__VA_ARGS__))

#define AM_Reply0(token, h) AM2_Reply(token, h, 0)
#define AM_Reply1(token, h, ...) AM2_Reply(token, h, 1 AM2_ARGS1(__VA_ARGS__))
#define AM_Reply2(token, h, ...) AM2_Reply(token, h, 2 AM2_ARGS2(__VA_ARGS__))
#define AM_Reply3(token, h, ...) AM2_Reply(token, h, 3 AM2_ARGS3(__VA_ARGS__))
#define AM_Reply4(token, h, ...) AM2_Reply(token, h, 4 AM2_ARGS4(__VA_ARGS__))
#define AM_Reply5(token, h, ...) AM2_Reply(token, h, 5 AM2_ARGS5(__VA_ARGS__))
#define AM_Reply6(token, h, ...) AM2_Reply(token, h, 6 AM2_ARGS6(__VA_ARGS__))
#define AM_Reply7(token, h, ...) AM2_Reply(token, h, 7 AM2_ARGS7(__VA_ARGS__))
#define AM_Reply8(token, h, ...) AM2_Reply(token, h, 8 AM2_ARGS8(__VA_ARGS__))
#define AM_Reply9(token, h, ...) AM2_Reply(token, h, 9 AM2_ARGS9(__VA_ARGS__))
#define AM_Reply10(token, h, ...) AM2_Reply(token, h, 10 AM2_ARGS10(__VA_ARGS__))
#define AM_Reply11(token, h, ...) AM2_Reply(token, h, 11 AM2_ARGS11(__VA_ARGS__))
#define AM_Reply12(token, h, ...) AM2_Reply(token, h, 12 AM2_ARGS12(__VA_ARGS__))
#define AM_Reply13(token, h, ...) AM2_Reply(token, h, 13 AM2_ARGS13(__VA_ARGS__))
#define AM_Reply14(token, h, ...) AM2_Reply(token, h, 14 AM2_ARGS14(__VA_ARGS__))
#define AM_Reply15(token, h, ...) AM2_Reply(token, h, 15 AM2_ARGS15(__VA_ARGS__))
#define AM_Reply16(token, h, ...) AM2_Reply(token, h, 16 AM2_ARGS16(__VA_ARGS__))

#define AM_ReplyI0(token, h, src, n) AM2_ReplyI(token, h, src, n, 0)
#define AM_ReplyI1(token, h, src, n, ...) AM2_ReplyI(token, h, src, n, 1 AM2_ARGS1(__VA_ARGS__))
#define AM_ReplyI2(token, h, src, n, ...) AM2_ReplyI(token, h, src, n, 2 AM2_ARGS2(__VA_ARGS__))
#define AM_ReplyI3(token, h, src, n, ...) AM2_ReplyI(token, h, src, n, 3 AM2_ARGS3(__VA_ARGS__))
#define AM_ReplyI4(token, h, src, n, ...) AM2_ReplyI(token, h, src, n, 4 AM2_ARGS4(__VA_ARGS__))
#define AM_ReplyI5(token, h, src, n, ...) AM2_ReplyI(token, h, src, n, 5 AM2_ARGS5(__VA_ARGS__))
#define AM_ReplyI6(token, h, src, n, ...) AM2_ReplyI(token, h, src, n, 6 AM2_ARGS6(__VA_ARGS__))
#define AM_ReplyI7(token, h, src, n, ...) AM2_ReplyI(token, h, src, n, 7 AM2_ARGS7(__VA_ARGS__))
#define AM_ReplyI8(token, h, src, n, ...) AM2_ReplyI(token, h, src, n, 8 AM2_ARGS8(__VA_ARGS__))
#define AM_ReplyI9(token, h, src, n, ...) AM2_ReplyI(token, h, src, n, 9 AM2_ARGS9(__VA_ARGS__))
#define AM_ReplyI10(token, h, src, n, ...) AM2_ReplyI(token, h, src, n, 10 AM2_ARGS10(__VA_ARGS__))
#define AM_ReplyI11(token, h, src, n, ...) AM2_ReplyI(token, h, src, n, 11 AM2_ARGS11(__VA_ARGS__))
#define AM_ReplyI12(token, h, src, n, ...) AM2_ReplyI(token, h, src, n, 12 AM2_ARGS12(__VA_ARGS__))
#define AM_ReplyI13(token, h, src, n, ...) AM2_ReplyI(token, h, src, n, 13 AM2_ARGS13(__VA_ARGS__))
#define AM_ReplyI14(token, h, src, n, ...) AM2_ReplyI(token, h, src, n, 14 AM2_ARGS14(__VA_ARGS__))
#define AM_ReplyI15(token, h, src, n, ...) AM2_ReplyI(token, h, src, n, 15 AM2_ARGS15(__VA_ARGS__))
#define AM_ReplyI16(token, h, src, n, ...) AM2_ReplyI(token, h, src, n, 16 AM2_ARGS16(__VA_ARGS__))

#define AM_ReplyXfer0(token, offset, h, src, n) AM2_ReplyXfer(token, offset, h, src, n, 0)
#define AM_ReplyXfer1(token, offset, h, src, n, ...)                                               \
  AM2_ReplyXfer(token, offset, h, src, n, 1 AM2_ARGS1(__VA_ARGS__))
#define AM_ReplyXfer2(token, offset, h, src, n, ...)                                               \
  AM2_ReplyXfer(token, offset, h, src, n, 2 AM2_ARGS2(__VA_ARGS__))
#define AM_ReplyXfer3(token, offset, h, src, n, ...)                                               \
  AM2_ReplyXfer(token, offset, h, src, n, 3 AM2_ARGS3(__VA_ARGS__))
#define AM_ReplyXfer4(token, offset, h, src, n, ...)                                               \
  AM2_ReplyXfer(token, offset, h, src, n, 4 AM2_ARGS4(__VA_ARGS__))
#define AM_ReplyXfer5(token, offset, h, src, n, ...)                                               \
  AM2_ReplyXfer(token, offset, h, src, n, 5 AM2_ARGS5(__VA_ARGS__))
#define AM_ReplyXfer6(token, offset, h, src, n, ...)                                               \
  AM2_ReplyXfer(token, offset, h, src, n, 6 AM2_ARGS6(__VA_ARGS__))
#define AM_ReplyXfer7(token, offset, h, src, n, ...)                                               \
  AM2_ReplyXfer(token, offset, h, src, n, 7 AM2_ARGS7(__VA_ARGS__))
#define AM_ReplyXfer8(token, offset, h, src, n, ...)                                               \
  AM2_ReplyXfer(token, offset, h, src, n, 8 AM2_ARGS8(__VA_ARGS__))
#define AM_ReplyXfer9(token, offset, h, src, n, ...)                                               \
  AM2_ReplyXfer(token, offset, h, src, n, 9 AM2_ARGS9(__VA_ARGS__))
#define AM_ReplyXfer10(token, offset, h, src, n, ...)                                              \
  AM2_ReplyXfer(token, offset, h, src, n, 10 AM2_ARGS10(__VA_ARGS__))
#define AM_ReplyXfer11(token, offset, h, src, n, ...)                                              \
  AM2_ReplyXfer(token, offset, h, src, n, 11 AM2_ARGS11(__VA_ARGS__))
#define AM_ReplyXfer12(token, offset, h, src, n, ...)                                              \
  AM2_ReplyXfer(token, offset, h, src, n, 12 AM2_ARGS12(__VA_ARGS__))
#define AM_ReplyXfer13(token, offset, h, src, n, ...)                                              \
  AM2_ReplyXfer(token, offset, h, src, n, 13 AM2_ARGS13(__VA_ARGS__))
#define AM_ReplyXfer14(token, offset, h, src, n, ...)                                              \
  AM2_ReplyXfer(token, offset, h, src, n, 14 AM2_ARGS14(__VA_ARGS__))
#define AM_ReplyXfer15(token, offset, h, src, n, ...)                                              \
  AM2_ReplyXfer(token, offset, h, src, n, 15 AM2_ARGS15(__VA_ARGS__))
#define AM_ReplyXfer16(token, offset, h, src, n, ...)                                              \
  AM2_ReplyXfer(token, offset, h, src, n, 16 AM2_ARGS16(__VA_ARGS__))

#define AM_GetXfer0(ep, to, from, h, offset, n) AM2_GetXfer(ep, to, from, h, offset, n, 0)
#define AM_GetXfer1(ep, to, from, h, offset, n, ...)                                               \
  AM2_GetXfer(ep, to, from, h, offset, n, 1 AM2_ARGS1(__VA_ARGS__))
#define AM_GetXfer2(ep, to, from, h, offset, n, ...)                                               \
  AM2_GetXfer(ep, to, from, h, offset, n, 2 AM2_ARGS2(__VA_ARGS__))
#define AM_GetXfer3(ep, to, from, h, offset, n, ...)                                               \
  AM2_GetXfer(ep, to, from, h, offset, n, 3 AM2_ARGS3(__VA_ARGS__))
#define AM_GetXfer4(ep, to, from, h, offset, n, ...)                                               \
  AM2_GetXfer(ep, to, from, h, offset, n, 4 AM2_ARGS4(__VA_ARGS__))
#define AM_GetXfer5(ep, to, from, h, offset, n, ...)                                               \
  AM2_GetXfer(ep, to, from, h, offset, n, 5 AM2_ARGS5(__VA_ARGS__))
#define AM_GetXfer6(ep, to, from, h, offset, n, ...)                                               \
  AM2_GetXfer(ep, to, from, h, offset, n, 6 AM2_ARGS6(__VA_ARGS__))
#define AM_GetXfer7(ep, to, from, h, offset, n, ...)                                               \
  AM2_GetXfer(ep, to, from, h, offset, n, 7 AM2_ARGS7(__VA_ARGS__))
#define AM_GetXfer8(ep, to, from, h, offset, n, ...)                                               \
  AM2_GetXfer(ep, to, from, h, offset, n, 8 AM2_ARGS8(__VA_ARGS__))
#define AM_GetXfer9(ep, to, from, h, offset, n, ...)                                               \
  AM2_GetXfer(ep, to, from, h, offset, n, 9 AM2_ARGS9(__VA_ARGS__))
#define AM_GetXfer10(ep, to, from, h, offset, n, ...)                                              \
  AM2_GetXfer(ep, to, from, h, offset, n, 10 AM2_ARGS10(__VA_ARGS__))
#define AM_GetXfer11(ep, to, from, h, offset, n, ...)                                              \
  AM2_GetXfer(ep, to, from, h, offset, n, 11 AM2_ARGS11(__VA_ARGS__))
#define AM_GetXfer12(ep, to, from, h, offset, n, ...)                                              \
  AM2_GetXfer(ep, to, from, h, offset, n, 12 AM2_ARGS12(__VA_ARGS__))
#define AM_GetXfer13(ep, to, from, h, offset, n, ...)                                              \
  AM2_GetXfer(ep, to, from, h, offset, n, 13 AM2_ARGS13(__VA_ARGS__))
#define AM_GetXfer14(ep, to, from, h, offset, n, ...)                                              \
  AM2_GetXfer(ep, to, from, h, offset, n, 14 AM2_ARGS14(__VA_ARGS__))
#define AM_GetXfer15(ep, to, from, h, offset, n, ...)                                              \
  AM2_GetXfer(ep, to, from, h, offset, n, 15 AM2_ARGS15(__VA_ARGS__))
#define AM_GetXfer16(ep, to, from, h, offset, n, ...)                                              \
  AM2_GetXfer(ep, to, from, h, offset, n, 16 AM2_ARGS16(__VA_ARGS__))

#define AM_GetXferAsync0(ep, to, from, h, offset, n) AM2_GetXferAsync(ep, to, from, h, offset, n, 0)
#define AM_GetXferAsync1(ep, to, from, h, offset, n, ...)                                          \
  AM2_GetXferAsync(ep, to, from, h, offset, n, 1 AM2_ARGS1(__VA_ARGS__))
#define AM_GetXferAsync2(ep, to, from, h, offset, n, ...)                                          \
  AM2_GetXferAsync(ep, to, from, h, offset, n, 2 AM2_ARGS2(__VA_ARGS__))
#define AM_GetXferAsync3(ep, to, from, h, offset, n, ...)                                          \
  AM2_GetXferAsync(ep, to, from, h, offset, n, 3 AM2_ARGS3(__VA_ARGS__))
#define AM_GetXferAsync4(ep, to, from, h, offset, n, ...)                                          \
  AM2_GetXferAsync(ep, to, from, h, offset, n, 4 AM2_ARGS4(__VA_ARGS__))
#define AM_GetXferAsync5(ep, to, from, h, offset, n, ...)                                          \
  AM2_GetXferAsync(ep, to, from, h, offset, n, 5 AM2_ARGS5(__VA_ARGS__))
#define AM_GetXferAsync6(ep, to, from, h, offset, n, ...)                                          \
  AM2_GetXferAsync(ep, to, from, h, offset, n, 6 AM2_ARGS6(__VA_ARGS__))
#define AM_GetXferAsync7(ep, to, from, h, offset, n, ...)                                          \
  AM2_GetXferAsync(ep, to, from, h, offset, n, 7 AM2_ARGS7(__VA_ARGS__))
#define AM_GetXferAsync8(ep, to, from, h, offset, n, ...)                                          \
  AM2_GetXferAsync(ep, to, from, h, offset, n, 8 AM2_ARGS8(__VA_ARGS__))
#define AM_GetXferAsync9(ep, to, from, h, offset, n, ...)                                          \
  AM2_GetXferAsync(ep, to, from, h, offset, n, 9 AM2_ARGS9(__VA_ARGS__))
#define AM_GetXferAsync10(ep, to, from, h, offset, n, ...)                                         \
  AM2_GetXferAsync(ep, to, from, h, offset, n, 10 AM2_ARGS10(__VA_ARGS__))
#define AM_GetXferAsync11(ep, to, from, h, offset, n, ...)                                         \
  AM2_GetXferAsync(ep, to, from, h, offset, n, 11 AM2_ARGS11(__VA_ARGS__))
#define AM_GetXferAsync12(ep, to, from, h, offset, n, ...)                                         \
  AM2_GetXferAsync(ep, to, from, h, offset, n, 12 AM2_ARGS12(__VA_ARGS__))
#define AM_GetXferAsync13(ep, to, from, h, offset, n, ...)                                         \
  AM2_GetXferAsync(ep, to, from, h, offset, n, 13 AM2_ARGS13(__VA_ARGS__))
#define AM_GetXferAsync14(ep, to, from, h, offset, n, ...)                                         \
  AM2_GetXferAsync(ep, to, from, h, offset, n, 14 AM2_ARGS14(__VA_ARGS__))
#define AM_GetXferAsync15(ep, to, from, h, offset, n, ...)                                         \
  AM2_GetXferAsync(ep, to, from, h, offset, n, 15 AM2_ARGS15(__VA_ARGS__))
#define AM_GetXferAsync16(ep, to, from, h, offset, n, ...)                                         \
  AM2_GetXferAsync(ep, to, from, h, offset, n, 16 AM2_ARGS16(__VA_ARGS__))

/* Older names of the macros for messages, which existing programs use. */
#define AM_RequestMedium0 AM_RequestI0
#define AM_RequestMedium1 AM_RequestI1
#define AM_RequestMedium2 AM_RequestI2
#define AM_RequestMedium3 AM_RequestI3
#define AM_RequestMedium4 AM_RequestI4
#define AM_RequestMedium5 AM_RequestI5
#define AM_RequestMedium6 AM_RequestI6
#define AM_RequestMedium7 AM_RequestI7
#define AM_RequestMedium8 AM_RequestI8
#define AM_RequestMedium9 AM_RequestI9
#define AM_RequestMedium10 AM_RequestI10
#define AM_RequestMedium11 AM_RequestI11
#define AM_RequestMedium12 AM_RequestI12
#define AM_RequestMedium13 AM_RequestI13
#define AM_RequestMedium14 AM_RequestI14
#define AM_RequestMedium15 AM_RequestI15
#define AM_RequestMedium16 AM_RequestI16
#define AM_RequestLong0 AM_RequestXfer0
#define AM_RequestLong1 AM_RequestXfer1
#define AM_RequestLong2 AM_RequestXfer2
#define AM_RequestLong3 AM_RequestXfer3
#define AM_RequestLong4 AM_RequestXfer4
#define AM_RequestLong5 AM_RequestXfer5
#define AM_RequestLong6 AM_RequestXfer6
#define AM_RequestLong7 AM_RequestXfer7
#define AM_RequestLong8 AM_RequestXfer8
#define AM_RequestLong9 AM_RequestXfer9
#define AM_RequestLong10 AM_RequestXfer10
#define AM_RequestLong11 AM_RequestXfer11
#define AM_RequestLong12 AM_RequestXfer12
#define AM_RequestLong13 AM_RequestXfer13
#define AM_RequestLong14 AM_RequestXfer14
#define AM_RequestLong15 AM_RequestXfer15
#define AM_RequestLong16 AM_RequestXfer16
#define AM_RequestLongAsync0 AM_RequestXferAsync0
#define AM_RequestLongAsync1 AM_RequestXferAsync1
#define AM_RequestLongAsync2 AM_RequestXferAsync2
#define AM_RequestLongAsync3 AM_RequestXferAsync3
#define AM_RequestLongAsync4 AM_RequestXferAsync4
#define AM_RequestLongAsync5 AM_RequestXferAsync5
#define AM_RequestLongAsync6 AM_RequestXferAsync6
#define AM_RequestLongAsync7 AM_RequestXferAsync7
#define AM_RequestLongAsync8 AM_RequestXferAsync8
#define AM_RequestLongAsync9 AM_RequestXferAsync9
#define AM_RequestLongAsync10 AM_RequestXferAsync10
#define AM_RequestLongAsync11 AM_RequestXferAsync11
#define AM_RequestLongAsync12 AM_RequestXferAsync12
#define AM_RequestLongAsync13 AM_RequestXferAsync13
#define AM_RequestLongAsync14 AM_RequestXferAsync14
#define AM_RequestLongAsync15 AM_RequestXferAsync15
#define AM_RequestLongAsync16 AM_RequestXferAsync16
#define AM_ReplyMedium0 AM_ReplyI0
#define AM_ReplyMedium1 AM_ReplyI1
#define AM_ReplyMedium2 AM_ReplyI2
#define AM_ReplyMedium3 AM_ReplyI3
#define AM_ReplyMedium4 AM_ReplyI4
#define AM_ReplyMedium5 AM_ReplyI5
#define AM_ReplyMedium6 AM_ReplyI6
#define AM_ReplyMedium7 AM_ReplyI7
#define AM_ReplyMedium8 AM_ReplyI8
#define AM_ReplyMedium9 AM_ReplyI9
#define AM_ReplyMedium10 AM_ReplyI10
#define AM_ReplyMedium11 AM_ReplyI11
#define AM_ReplyMedium12 AM_ReplyI12
#define AM_ReplyMedium13 AM_ReplyI13
#define AM_ReplyMedium14 AM_ReplyI14
#define AM_ReplyMedium15 AM_ReplyI15
#define AM_ReplyMedium16 AM_ReplyI16
#define AM_ReplyLong0 AM_ReplyXfer0
#define AM_ReplyLong1 AM_ReplyXfer1
#define AM_ReplyLong2 AM_ReplyXfer2
#define AM_ReplyLong3 AM_ReplyXfer3
#define AM_ReplyLong4 AM_ReplyXfer4
#define AM_ReplyLong5 AM_ReplyXfer5
#define AM_ReplyLong6 AM_ReplyXfer6
#define AM_ReplyLong7 AM_ReplyXfer7
#define AM_ReplyLong8 AM_ReplyXfer8
#define AM_ReplyLong9 AM_ReplyXfer9
#define AM_ReplyLong10 AM_ReplyXfer10
#define AM_ReplyLong11 AM_ReplyXfer11
#define AM_ReplyLong12 AM_ReplyXfer12
#define AM_ReplyLong13 AM_ReplyXfer13
#define AM_ReplyLong14 AM_ReplyXfer14
#define AM_ReplyLong15 AM_ReplyXfer15
#define AM_ReplyLong16 AM_ReplyXfer16
#define AM_GetXferAsynch0 AM_GetXferAsync0
#define AM_GetXferAsynch1 AM_GetXferAsync1
#define AM_GetXferAsynch2 AM_GetXferAsync2
#define AM_GetXferAsynch3 AM_GetXferAsync3
#define AM_GetXferAsynch4 AM_GetXferAsync4
#define AM_GetXferAsynch5 AM_GetXferAsync5
#define AM_GetXferAsynch6 AM_GetXferAsync6
#define AM_GetXferAsynch7 AM_GetXferAsync7
#define AM_GetXferAsynch8 AM_GetXferAsync8
#define AM_GetXferAsynch9 AM_GetXferAsync9
#define AM_GetXferAsynch10 AM_GetXferAsync10
#define AM_GetXferAsynch11 AM_GetXferAsync11
#define AM_GetXferAsynch12 AM_GetXferAsync12
#define AM_GetXferAsynch13 AM_GetXferAsync13
#define AM_GetXferAsynch14 AM_GetXferAsync14
#define AM_GetXferAsynch15 AM_GetXferAsync15
#define AM_GetXferAsynch16 AM_GetXferAsync16

/* clang-format on */

#endif
