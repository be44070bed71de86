/* paths.h - every path that two parts must agree on. VGPU_PKGLIBDIR, VGPU_DATADIR and
 * VGPU_SYSCONFDIR come from the Makefile. */
#ifndef VGPU_PATHS_H
#define VGPU_PATHS_H

#define VGPU_RUNTIME_DIR  "/run/vgpu" /* default of runtime_dir=; %n is the node name */
#define VGPU_CONF         VGPU_SYSCONFDIR "/slurm/vgpu.conf"
#define VGPUD_SOCKET      "vgpud.sock"  /* in the runtime directory, 0600 root */
#define VGPU_AGENT_SOCKET "agent.sock"  /* there too: vgpu-agent, for advice */
#define VGPU_STEPS        "steps"       /* in the runtime directory, 0700 root: steps/JOB.STEP/ */
#define VGPU_ATTACH_SOCK  "attach.sock" /* in a step's directory */

/* Where a step's own directory is mounted inside the step. Exists on the node, empty, so that it
 * can be mounted over. */
#define VGPU_STEP_DIR    "/run/vgpu-step"
#define VGPU_STEP_SOCKET VGPU_STEP_DIR "/" VGPU_ATTACH_SOCK

#define VGPU_SLOTS_DIR                                                                             \
    VGPU_DATADIR "/slots" /* slots/0 ... slots/1023: placeholders for File= in gres.conf */
#define VGPU_COVER                                                                                 \
    VGPU_DATADIR "/covered" /* mode 000: bound over device files a step may not open */
#define VGPU_SHIM_NAME                                                                             \
    "libvgpu.so" /* in VGPU_PKGLIBDIR; preloaded as /usr/$LIB/slurm-vgpu/libvgpu.so */

/* What the gres plugin leaves in slurmstepd's own environment: "" when the step has no slot, else
 * "0,12". A user's environment never gets there. */
#define VGPU_GRES_MARK "_VGPU_GRES_SLOTS"
/* What the SPANK plugin leaves there for the gres plugin: the path of vgpu.conf, if plugstack.conf
 * names another. */
#define VGPU_CONF_MARK "_VGPU_CONF"

#endif
