"""What runs in the child process: a student's code, and nothing that judges it.

The parent, `ctlearn.course.sandbox`, puts the folder above this one on the child's
path, so that this package is `runner` there and brings nothing else of ctlearn along.
It sends messages (`messages`), each of which is answered by one (`child`). Whatever a
student's code does in this process, all that leaves it is numbers and words, and the
numbers are compared elsewhere. Before that code runs (`submission`), the ways out are
closed (`fence`).
"""
