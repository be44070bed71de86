/* static - a program without a dynamic loader, which no preload reaches. */
#include <stdio.h>

int main(void)
{
    puts("static");
    return 5;
}
