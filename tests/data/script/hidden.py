"""What one instance has of its own hides the class's for it alone, at a site that has met the others too."""


class Turn:
    keep = staticmethod(lambda x: ("static", x))
    flag = "class"

    def turn(self, x):
        return "class", x

    def run(self, x):
        return self.turn(x), self.keep(x), self.flag


def own(x):
    return "own", x


objects = [Turn() for _ in range(4)]
for chosen in ((0,), (0, 2), (0, 2, 3)):
    for i in chosen:
        objects[i].turn = own
        objects[i].keep = own
        objects[i].flag = i
    for order in (objects, objects[::-1], objects):
        print([o.run(1) for o in order])
del objects[0].turn, objects[2].keep
print([o.run(2) for o in objects])
