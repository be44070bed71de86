/* node.h - which node this is, inside slurmd and slurmstepd. */
#ifndef VGPU_NODE_H
#define VGPU_NODE_H

/* The node's name as in slurm.conf. slurmd tells its children in their own environment, which a
 * user's never reaches; where it does not, the host name up to the first dot is meant. */
const char *vgpu_node_name(void);

#endif
