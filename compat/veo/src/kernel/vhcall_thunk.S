// SPDX-License-Identifier: Apache-2.0

/* uint64_t vhcall_thunk(void* function, const struct vhcall_frame* frame)
 * Copies the stack words, loads all argument registers from the frame, and calls the function.
 * Registers without an argument may have any value. */

#if defined(__x86_64__)

	.text
	.globl vhcall_thunk
	.hidden vhcall_thunk
	.type vhcall_thunk, @function
vhcall_thunk:
	.cfi_startproc
#ifdef __CET__
	endbr64
#endif
	pushq %rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq %rsp, %rbp
	.cfi_def_cfa_register %rbp
	movq %rdi, %r11
	movq %rsi, %r10
	movq 136(%r10), %rcx
	leaq 15(,%rcx,8), %rax
	andq $-16, %rax
	subq %rax, %rsp
	movq 128(%r10), %rsi
	movq %rsp, %rdi
	cld
	rep movsq
	movsd 64(%r10), %xmm0
	movsd 72(%r10), %xmm1
	movsd 80(%r10), %xmm2
	movsd 88(%r10), %xmm3
	movsd 96(%r10), %xmm4
	movsd 104(%r10), %xmm5
	movsd 112(%r10), %xmm6
	movsd 120(%r10), %xmm7
	movq 0(%r10), %rdi
	movq 8(%r10), %rsi
	movq 16(%r10), %rdx
	movq 24(%r10), %rcx
	movq 32(%r10), %r8
	movq 40(%r10), %r9
	/* Variadic functions get in al an upper bound of the number of xmm registers in use. */
	movl $8, %eax
	call *%r11
	leave
	.cfi_def_cfa %rsp, 8
	ret
	.cfi_endproc
	.size vhcall_thunk, .-vhcall_thunk

#elif defined(__aarch64__)

	.text
	.globl vhcall_thunk
	.hidden vhcall_thunk
	.type vhcall_thunk, %function
vhcall_thunk:
	.cfi_startproc
	stp x29, x30, [sp, #-16]!
	.cfi_def_cfa_offset 16
	.cfi_offset 29, -16
	.cfi_offset 30, -8
	mov x29, sp
	.cfi_def_cfa_register 29
	mov x16, x0
	mov x17, x1
	ldr x9, [x17, #136]
	ldr x10, [x17, #128]
	lsl x11, x9, #3
	add x11, x11, #15
	and x11, x11, #-16
	sub sp, sp, x11
	mov x12, sp
1:	cbz x9, 2f
	ldr x13, [x10], #8
	str x13, [x12], #8
	sub x9, x9, #1
	b 1b
2:	ldp d0, d1, [x17, #64]
	ldp d2, d3, [x17, #80]
	ldp d4, d5, [x17, #96]
	ldp d6, d7, [x17, #112]
	ldp x0, x1, [x17]
	ldp x2, x3, [x17, #16]
	ldp x4, x5, [x17, #32]
	ldp x6, x7, [x17, #48]
	blr x16
	mov sp, x29
	ldp x29, x30, [sp], #16
	.cfi_def_cfa 31, 0
	ret
	.cfi_endproc
	.size vhcall_thunk, .-vhcall_thunk

#endif

	.section .note.GNU-stack, "", %progbits
