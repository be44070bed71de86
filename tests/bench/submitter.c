/* submitter.c - submits jobs one after the other and says how long each took.
 *
 *     submitter COUNT [GRES]      e.g. submitter 200 gres:vgpu:2
 *
 * The jobs are held; one line of microseconds each goes to standard output. A job that Slurm does
 * not take is an error. */
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int submit(char *gres)
{
    static char *environment[] = {"PATH=/usr/bin:/bin", NULL};
    job_desc_msg_t job;
    submit_response_msg_t *answer = NULL;

    slurm_init_job_desc_msg(&job);
    job.name = "submitter";
    job.script = "#!/bin/sh\ntrue\n";
    job.work_dir = "/tmp";
    job.std_out = "/dev/null";
    job.environment = environment;
    job.env_size = 1;
    job.priority = 0;
    job.min_nodes = 1;
    job.user_id = 0;
    job.group_id = 0;
    job.tres_per_node = gres;
    if (slurm_submit_batch_job(&job, &answer) != SLURM_SUCCESS) {
        slurm_perror("submitter");
        return -1;
    }
    slurm_free_submit_response_response_msg(answer);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    slurm_init(NULL);
    for (int left = atoi(argv[1]); left > 0; left--) {
        double start = now_us();
        if (submit(argc > 2 ? argv[2] : NULL) != 0)
            return 1;
        printf("%.1f\n", now_us() - start);
    }
    return 0;
}
