/* dlsym.S - dlsym and dlvsym: ask resolve.c, then return its answer or jump to the C library with the caller's own
 * arguments and return address, which tells it the caller's place in the search order. */
#if !defined(__x86_64__)
#error "dlsym and dlvsym have to be written for this machine"
#endif

        .text

        .globl  dlsym
        .type   dlsym, @function
dlsym:  .cfi_startproc
        endbr64
        push    %rdi
        .cfi_adjust_cfa_offset 8
        push    %rsi
        .cfi_adjust_cfa_offset 8
        sub     $8, %rsp
        .cfi_adjust_cfa_offset 8
        mov     24(%rsp), %rdx          /* return address: who calls */
        call    resolve_dlsym
        add     $8, %rsp
        .cfi_adjust_cfa_offset -8
        pop     %rsi
        .cfi_adjust_cfa_offset -8
        pop     %rdi
        .cfi_adjust_cfa_offset -8
        test    %rdx, %rdx
        jz      1f
        jmp     *%rdx
1:      ret
        .cfi_endproc
        .size   dlsym, . - dlsym

        .globl  dlvsym
        .type   dlvsym, @function
dlvsym: .cfi_startproc
        endbr64
        push    %rdi
        .cfi_adjust_cfa_offset 8
        push    %rsi
        .cfi_adjust_cfa_offset 8
        push    %rdx
        .cfi_adjust_cfa_offset 8
        mov     24(%rsp), %rcx
        call    resolve_dlvsym
        mov     %rdx, %r11
        pop     %rdx
        .cfi_adjust_cfa_offset -8
        pop     %rsi
        .cfi_adjust_cfa_offset -8
        pop     %rdi
        .cfi_adjust_cfa_offset -8
        test    %r11, %r11
        jz      1f
        jmp     *%r11
1:      ret
        .cfi_endproc
        .size   dlvsym, . - dlvsym

        .section .note.GNU-stack, "", @progbits
