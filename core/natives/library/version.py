hip = None
cuda = "12.8"
git_version = ""
